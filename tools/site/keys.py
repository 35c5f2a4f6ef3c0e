"""A page with the keys of each plugin, made of the JSON Schemas in conf/schemas."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_FOLDER: Final = Path(__file__).resolve().parents[2] / "conf" / "schemas"
_OF_NO_PLUGIN: Final = {"common", "conflist", "plugin"}


def keys_page() -> str:
    """Return Markdown: a table for each plugin, then for the keys that all share, and for network lists."""
    schemas = {path.name.partition(".")[0]: json.loads(path.read_text()) for path in sorted(_FOLDER.glob("*.json"))}
    return "\n".join(_lines(schemas)) + "\n"


def _lines(schemas: Mapping[str, Any]) -> Iterator[str]:
    yield from ("# Keys of the plugins", "")
    yield "Generated from the JSON Schemas in `conf/schemas`. Keys match in any case, and `null` is absent."
    for name, schema in schemas.items():
        if name not in _OF_NO_PLUGIN:
            yield from ("", f"## {name}", "", schema.get("description", ""), "")
            yield from _table(schema, schemas, name)
    shared = schemas["common"]["$defs"]["plugin"]
    yield from ("", "## All plugins", "")
    yield from _table(shared, schemas, "common")
    yield from ("", "## A network list", "", schemas["conflist"].get("description", ""), "")
    yield from _table(schemas["conflist"], schemas, "conflist")


def _table(schema: Mapping[str, Any], schemas: Mapping[str, Any], of: str) -> Iterator[str]:
    if not (rows := list(_rows(schema, schemas, of, ""))):
        yield "It has no keys of its own."
        return
    yield from ("| key | value | meaning |", "| --- | --- | --- |")
    yield from (f"| `{key}` | {_cell(value)} | {_cell(meaning)} |" for key, value, meaning in rows)


def _rows(schema: Mapping[str, Any], schemas: Mapping[str, Any], of: str, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield path, type and description of each key, and of the keys of objects and lists below it."""
    for key, value in schema.get("properties", {}).items():
        found, place = _resolved(value, schemas, of)
        yield f"{path}{key}", found.get("title", ""), value.get("description") or found.get("description", "")
        # `ipam` of all plugins has sections of its own: the IPAM plugins'.
        inner, dots = found, "."
        while "items" in inner:
            inner, place = _resolved(inner["items"], schemas, place)
            dots = f"[]{dots}"
        yield from _rows(inner, schemas, place, f"{path}{key}{dots}")


def _resolved(value: Mapping[str, Any], schemas: Mapping[str, Any], of: str) -> tuple[Mapping[str, Any], str]:
    """Return the schema that a reference leads to, and the name of its document."""
    reference = value.get("$ref", "")
    file, _, pointer = reference.partition("#/$defs/")
    document = file.partition(".")[0] or of
    if not pointer:
        return (schemas[document], document) if reference else (value, of)
    return schemas[document]["$defs"][pointer], document


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
