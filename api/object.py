"""The base of the Kubernetes API's objects, and how their single values are read.

Keys are read as the API server reads them with `fieldValidation=Strict`: their case matters, and an unknown one is an
error that names its path.
"""

from typing import ClassVar, Final

from api.quantity import QuantityError, parse_quantity
from fast_stdlib.typing import Self
from skel.decoders import dict_of, integer_between, list_of, string
from skel.errors import CniError, Code
from skel.record import Decoder, Record, Tolerate, expected, joined, rendered

_UNKNOWN: Final = "_unknown"

strings: Decoder[list[str]] = list_of(string)
"""Reads a list of strings."""
string_map: Decoder[dict[str, str]] = dict_of(string)
"""Reads an object whose values are strings."""
int32: Decoder[int] = integer_between(-(2**31), 2**31 - 1)
"""Reads a whole number of 32 bits."""
int64: Decoder[int] = integer_between(-(2**63), 2**63 - 1)
"""Reads a whole number of 64 bits."""


def port(value: object, path: str) -> int | str:
    """Read a port: a number, or the name of a port of the container."""
    return value if isinstance(value, str) else int32(value, path)


def quantity(value: object, path: str) -> str:
    """Read a quantity and keep its text; YAML makes a number of `1`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise expected("a quantity", value, path)
    text = str(value).strip()
    try:
        parse_quantity(text)
    except QuantityError as error:
        raise CniError(Code.INVALID_CONFIG, f"{path}: Invalid value: {rendered(value)}: {error}") from None
    return text


class V1Object(Record):
    """Base of the API's objects."""

    _ignored: ClassVar[frozenset[str]] = frozenset()
    """Keys that the API knows and that have no effect on a node without API server and scheduler."""
    _refused: ClassVar[dict[str, str]] = {}
    """Keys that the API knows and this node cannot follow, each with the reason."""

    @classmethod
    def decode(cls, value: object, path: str = "", *, tolerate: Tolerate | None = None) -> Self:
        """Read an object found at `path`, and note its unknown keys for `take_unknown_fields`.

        Raises CniError that names the path and the value, also for a key that this node cannot follow.
        """
        if not isinstance(value, dict):
            return super().decode(value, path or "manifest", tolerate=tolerate)
        keys = {known.key for known in cls._fields.values()}
        for key, item in value.items():
            if key in cls._refused and item is not None:
                raise CniError(Code.INVALID_CONFIG, f"{joined(path, key)}: Forbidden: {cls._refused[key]}")
        decoded = super().decode({key: item for key, item in value.items() if key in keys}, path, tolerate=tolerate)
        if unknown := [joined(path, key) for key in value if key not in keys | cls._ignored | cls._refused.keys()]:
            vars(decoded)[_UNKNOWN] = unknown
        return decoded


def take_unknown_fields(decoded: object) -> list[str]:
    """Return the paths of the unknown keys that were read into `decoded`, and forget them."""
    if isinstance(decoded, list):
        return [path for item in decoded for path in take_unknown_fields(item)]
    if isinstance(decoded, dict):
        return [path for item in decoded.values() for path in take_unknown_fields(item)]
    if not isinstance(decoded, Record):
        return []
    own: list[str] = vars(decoded).pop(_UNKNOWN, [])
    return own + [path for item in vars(decoded).values() for path in take_unknown_fields(item)]
