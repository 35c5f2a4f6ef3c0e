"""YAML and JSON documents of a manifest file, as values of JSON.

YAML is read as Kubernetes reads it: times and numbers of base 60 are strings, keys become strings, and a key that is
written twice is an error that names its path. Content that begins with `{` is JSON, one object or several.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Final

import yaml

from api.object import joined

_MOST_NODES: Final = 200_000
"""Values of one document after its aliases are followed: a few lines of YAML may stand for billions."""
_HIGHEST: Final = 2**64 - 1
_LOWEST: Final = -(2**63)
_EXACT: Final = 2**53
"""Whole numbers below are the same as a float; Go writes `1.0` of YAML as `1` of JSON."""
_LONGEST_NUMBER: Final = 400
_BOOLEANS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_DIGITS: Final = "-+.0123456789"
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=lambda pairs: _Members(pairs),  # noqa: PLW0108 -- the class comes below
    parse_constant=lambda text: _refuse(f"{text} is not a number of JSON"),
    parse_int=lambda text: _number(int(text) if len(text) < _LONGEST_NUMBER else _HIGHEST + 1, text),
    parse_float=lambda text: _number(float(text), text),
)


class ManifestError(ValueError):
    """A manifest that is no document, or a document that is no object of the API; the message is for users."""


class _Members(list[tuple[str, object]]):
    """The members of a JSON object, until its path is known."""


class _Loader(yaml.SafeLoader):
    """Resolves plain scalars as Go's YAML library does."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)", _DIGITS),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))


def read_documents(content: bytes) -> Iterator[object]:
    """Yield each document of a file; empty documents count as none. Raises ManifestError."""
    try:
        text = content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ManifestError(f"not UTF-8 at byte {error.start}") from None
    try:
        if text.lstrip().startswith("{"):
            try:
                yield from _json_documents(text)
            except json.JSONDecodeError as error:
                yield from _yaml_instead_of_json(text, error)
        else:
            yield from _yaml_documents(text)
    except RecursionError:
        raise ManifestError("nested too deeply") from None


def _json_documents(text: str) -> list[object]:
    """Return the JSON objects of a text. Raises JSONDecodeError, ManifestError."""
    documents, place = [], 0
    while (place := len(text) - len(text[place:].lstrip(" \t\r\n"))) < len(text):
        members, place = _DECODER.raw_decode(text, place)
        documents.append(_plain_json(members, ""))
    return documents


def _yaml_instead_of_json(text: str, error: json.JSONDecodeError) -> Iterator[object]:
    """Yield the documents of YAML that begins with a brace. Raises ManifestError: the error of the JSON reader."""
    try:
        documents = list(_yaml_documents(text))
    except ManifestError:
        raise ManifestError(f"not JSON: {error}") from None
    yield from documents


def _plain_json(value: object, path: str) -> object:
    if isinstance(value, _Members):
        members: dict[str, object] = {}
        for key, item in value:
            _add(members, _without_surrogates(key), _plain_json(item, joined(path, key)), path)
        return members
    if isinstance(value, list):
        return [_plain_json(item, f"{path}[{index}]") for index, item in enumerate(value)]
    return _without_surrogates(value) if isinstance(value, str) else value


def _yaml_documents(text: str) -> Iterator[object]:
    loader = None
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            document = None if node is None else _Document().value(node, "")
            if document is not None:
                yield document
    except ManifestError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML leaves errors of chr() to its callers
        raise ManifestError(f"not YAML: {_in_words(error, text)}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _in_words(error: Exception, text: str) -> str:
    """Return the place and the cause of PyYAML's error, without its excerpts and its name of the stream."""
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem or error.context}"
    if isinstance(error, yaml.reader.ReaderError) and isinstance(error.character, int):
        line = text.count("\n", 0, error.position) + 1
        return f"line {line}: the character U+{error.character:04X} is not allowed"
    return " ".join(str(error).split())


class _Document:
    """Turns the nodes of one YAML document into values of JSON."""

    def __init__(self) -> None:
        self._nodes = 0

    def value(self, node: yaml.Node, path: str) -> object:
        """Return the value of a node. Raises ManifestError."""
        self._count()
        if isinstance(node, yaml.MappingNode):
            return self._members(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        return _scalar(node, path)

    def _members(self, node: yaml.MappingNode, path: str) -> dict[str, object]:
        self._count()
        members: dict[str, object] = {}
        merged: dict[str, object] = {}
        for key_node, item in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                for source in item.value if isinstance(item, yaml.SequenceNode) else [item]:
                    if not isinstance(source, yaml.MappingNode):
                        raise ManifestError(f"{joined(path, '<<')}: expected an object to merge")
                    merged = self._members(source, path) | merged
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise ManifestError(f"{path or 'manifest'}: expected a string as key")
            key = _scalar(key_node, path)
            key = key if isinstance(key, str) else json.dumps(key)  # as JSON: `1: x` and `true: x` have "1" and "true"
            _add(members, key, self.value(item, joined(path, key)), path)
        return merged | members

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise ManifestError(f"more than {_MOST_NODES} values in one document")


def _add(members: dict[str, object], key: str, value: object, path: str) -> None:
    if key in members:
        raise ManifestError(f'duplicate field "{joined(path, key)}"')
    members[key] = value


def _scalar(node: yaml.Node, path: str) -> object:
    text: str = node.value
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if kind in {"int", "float"}:
        try:
            # `.inf` and `.nan` have a point in YAML.
            plain = text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan")
            number = _number(_integer(text) if kind == "int" else float(plain), text)
        except (ValueError, OverflowError) as error:
            raise ManifestError(f"{path or 'manifest'}: {error}") from None
        return int(number) if number == int(number) and abs(number) < _EXACT else number
    if kind in {"str", "merge", "timestamp"}:
        return _without_surrogates(text)
    raise ManifestError(f"{path or 'manifest'}: {node.tag} is no type of JSON")


def _integer(text: str) -> int:
    """Read a whole number in the notations of YAML 1.1 and 1.2: 0644 and 0o644 are octal."""
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    for prefix, base in (("0b", 2), ("0o", 8), ("0x", 16), ("0", 8)):
        if digits.startswith(prefix) and len(digits) > len(prefix):
            return sign * int(digits.removeprefix(prefix), base)
    return sign * int(digits)


def _number(number: float, text: str) -> float:
    """Return a number that JSON and 64 bits can hold. Raises ManifestError."""
    shown = text if len(text) <= _LONGEST_NUMBER else f"{text[:20]}…"
    if isinstance(number, int):
        if not _LOWEST <= number <= _HIGHEST:
            raise ManifestError(f"{shown} is beyond a 64-bit number")
    elif not math.isfinite(number):
        raise ManifestError(f"{shown} is not a number of JSON")
    return number


def _refuse(message: str) -> object:
    raise ManifestError(message)


def _without_surrogates(text: str) -> str:
    """Return a text without halves of characters, as Go reads it: JSON can escape them one by one."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
