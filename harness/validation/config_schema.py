"""Validation of a plugin's configuration with the JSON Schemas in `conf/schemas`, which editors can use too.

Every plugin in Go ignores the case of keys and treats `null` as absent. JSON Schema does neither, so a configuration
is first rewritten in the schemas' spelling. This step also finds unknown keys, because the schemas' own message for
them could not say which key was meant.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeAlias

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from harness.locations import OWN_CONF_DIR
from harness.validation.validate import unknown_key
from skel.decoders import address, cidr, interface_name, optional
from skel.errors import CniError
from skel.record import joined, rendered

_PLUGIN: Final = "plugin.schema.json"
_ABOUT_UNKNOWN_KEYS: Final = {"unevaluatedProperties", "additionalProperties"}

_Applied: TypeAlias = list[tuple[Mapping[str, Any], Any]]
"""Schemas that apply to a value, each with the resolver of its references."""


class ExaminedPlugin(NamedTuple):
    """A plugin's configuration in the schemas' spelling, without unknown keys, and the errors found."""

    config: dict[str, Any]
    problems: list[str]
    warnings: list[str]


def examine(config: Mapping[str, object], where: str, generated: Collection[str] = ()) -> ExaminedPlugin:
    """Validate one plugin's configuration, found at the path `where`, with the schema of its type.

    `generated` are keys in lower case that are left out. If the type has no schema, only the keys common to all plugins
    are validated.
    """
    registry = _registry()
    validator = _Validator({"$ref": _PLUGIN}, registry=registry, format_checker=_FORMATS)
    own = {key: value for key, value in config.items() if key.lower() not in generated}
    spelling = _Spelling(validator)
    spelled = spelling.spell(own, [({"$ref": _PLUGIN}, registry.resolver())], where)
    errors = sorted(validator.iter_errors(spelled), key=lambda error: list(map(str, error.absolute_path)))
    problems = dict.fromkeys(text for error in errors for text in _in_words(error, where, str(spelled.get("type"))))
    warnings = [f"{path} ({spelled.get('type')}): {text}" for path, text in spelling.unknown]
    return ExaminedPlugin(spelled, list(problems), warnings)


class _Spelling:
    """Rewrites a document in the spelling of the schemas that apply to it; `unknown` lists keys of no schema."""

    def __init__(self, validator: Any) -> None:  # noqa: ANN401 -- the library makes its classes at run time
        self._validator = validator
        self.unknown: list[tuple[str, str]] = []

    def spell(self, value: object, schemas: _Applied, path: str) -> Any:  # noqa: ANN401 -- JSON of any shape
        """Return `value` with its keys in the spelling of `schemas`; without schemas, unchanged at any depth."""
        if not schemas:
            return value
        if isinstance(value, list):
            items = [(schema["items"], resolver) for schema, resolver in self._all(schemas, value) if "items" in schema]
            return [self.spell(item, items, f"{path}[{index}]") for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        kept = {key: item for key, item in value.items() if item is not None}
        # The schemas without conditions come first: a condition can only read a key in its own spelling.
        kept = _respelled(kept, _properties(list(self._all(schemas, {}))))
        applied = list(self._all(schemas, kept))
        known = _properties(applied)
        kept = _respelled(kept, known)
        if any(schema.get("unevaluatedProperties") is False for schema, _ in applied):
            for key in [key for key in kept if key not in known]:
                if text := unknown_key(key, kept.pop(key), known):
                    self.unknown.append((joined(path, key), text))
        return {key: self.spell(item, known.get(key, []), joined(path, key)) for key, item in kept.items()}

    def _all(self, schemas: _Applied, value: object) -> Iterator[tuple[Mapping[str, Any], Any]]:
        """Yield the schemas, and the schemas that they refer to if their conditions hold for `value`."""
        for schema, resolver in schemas:
            yield schema, resolver
            if "$ref" in schema:
                found = resolver.lookup(schema["$ref"])
                yield from self._all([(found.contents, found.resolver)], value)
            yield from self._all([(part, resolver) for part in schema.get("allOf", [])], value)
            if "if" in schema and self._validator.evolve(schema=schema["if"]).is_valid(value):
                yield from self._all([(schema["then"], resolver)], value)


def _respelled(value: Mapping[str, object], known: Collection[str]) -> dict[str, object]:
    spelling = {name.lower(): name for name in known}
    return {spelling.get(key.lower(), key): item for key, item in value.items()}


def _properties(schemas: _Applied) -> dict[str, _Applied]:
    found: dict[str, _Applied] = {}
    for schema, resolver in schemas:
        for key, of_key in schema.get("properties", {}).items():
            found.setdefault(key, []).append((of_key, resolver))
    return found


def _in_words(error: ValidationError, where: str, type: str) -> Iterator[str]:
    if error.validator in _ABOUT_UNKNOWN_KEYS:
        return
    schema = error.schema if isinstance(error.schema, dict) else {}
    title = schema.get("title")
    path = where
    for step in error.absolute_path:
        path = f"{path}[{step}]" if isinstance(step, int) else joined(path, str(step))
    if error.validator == "required" and isinstance(error.instance, dict):
        missing = [key for key in schema["required"] if key not in error.instance]
        yield from (f"{joined(path, key)} ({type}): required key is missing" for key in missing)
    elif error.validator == "not" and path == where:  # keys of the plugin that exclude each other
        yield f"{path} ({type}): {title}"
    else:
        wanted = f"expected {title}" if title else error.message
        yield f"{path} ({type}): {wanted}, got {rendered(error.instance)}"


@cache
def _registry() -> "Registry[Any]":
    schemas = [json.loads(path.read_bytes()) for path in sorted((OWN_CONF_DIR / "schemas").glob("*.schema.json"))]
    for schema in schemas:
        del schema["$schema"]  # otherwise the library uses its own validator for it
    return Registry[Any]().with_resources((each["$id"], DRAFT202012.create_resource(each)) for each in schemas)


# A whole number is one as in Go and in our plugins: JSON Schema accepts 1.0, too.
_TYPES: Final = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)

_Validator: Final = extend(Draft202012Validator, type_checker=_TYPES)  # type: ignore[no-untyped-call]  # its stub has no types

_FORMATS: Final = FormatChecker(formats=())


def _has_format(decode: Callable[[object, str], object], value: object) -> bool:
    """Return True, or raise CniError."""
    if isinstance(value, str):
        decode(value, "")
    return True


for _name, _decode in (("cidr", cidr), ("ip-address", optional(address)), ("interface-name", interface_name)):
    _FORMATS.checks(_name, raises=CniError)(partial(_has_format, _decode))
