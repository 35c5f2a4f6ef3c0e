"""Errors of single fields in the API server's words (apimachinery's util/validation/field/errors.go)."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

_ESCAPES: Final = dict(zip('"\\\a\b\f\n\r\t\v', '"\\abfnrtv', strict=True))
"""The character that Go writes after a backslash for another one."""
_LAST_ASCII: Final = 0x7F
_LAST_OF_16_BITS: Final = 0xFFFF


class DecodeError(ValueError):
    """JSON that is no object of the API; the message, which is for users, names the path and the value."""


class FieldError(NamedTuple):
    """A fault of one field; its text is `PATH: KIND[: VALUE][: DETAIL]`."""

    field: str
    """The path, such as `spec.containers[0].name`."""

    kind: str
    """`Required value`, `Invalid value`, …"""

    value: str = ""
    """The value as the text shows it, empty for the kinds that show none."""

    detail: str = ""
    """What is asked for, if the kind does not say it."""

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)


def required(path: str, detail: str = "") -> FieldError:
    """Return the error for a missing value."""
    return FieldError(path, "Required value", detail=detail)


def invalid(path: str, value: object, detail: str) -> FieldError:
    """Return the error for a value that breaks a rule."""
    return FieldError(path, "Invalid value", _shown(value), detail)


def flaws_at(path: str, value: T, rule: Callable[[T], list[str]]) -> list[FieldError]:
    """Return the flaws that a rule of `api.names` finds in the value at `path`, as errors of that field."""
    return [invalid(path, value, flaw) for flaw in rule(value)]


def not_supported(path: str, value: str, supported: Sequence[str]) -> FieldError:
    """Return the error for a value that is none of `supported`, which are told in this order."""
    words = ", ".join(map(quoted, supported))
    return FieldError(path, "Unsupported value", _shown(value), f"supported values: {words}")


def duplicate(path: str, value: str) -> FieldError:
    """Return the error for a value that must be unique and is not."""
    return FieldError(path, "Duplicate value", _shown(value))


def not_found(path: str, value: str) -> FieldError:
    """Return the error for a name of something that does not exist."""
    return FieldError(path, "Not found", _shown(value))


def forbidden(path: str, detail: str) -> FieldError:
    """Return the error for a field that may not be set here."""
    return FieldError(path, "Forbidden", detail=detail)


def too_long(path: str, limit: int) -> FieldError:
    """Return the error for a value of more than `limit` bytes."""
    return FieldError(path, "Too long", detail=f"may not be more than {limit} bytes")


def aggregate(errors: Iterable[FieldError]) -> str:
    """Return several errors as one text, each once: `[first, second]`, or a single one without brackets."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def quoted(text: str) -> str:
    """Return a string as Go's `%q` prints it."""
    return f'"{"".join(map(_escaped, text))}"'


def _shown(value: object) -> str:
    return quoted(value) if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    if character.isprintable():
        return character
    point = ord(character)
    if point <= _LAST_ASCII:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= _LAST_OF_16_BITS else f"\\U{point:08x}"
