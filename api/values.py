"""How single values of JSON are read: the decoder of a field follows from its annotation."""

import base64
import json
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_origin

from api.errors import DecodeError
from api.quantity import QuantityError, parse_quantity

T = TypeVar("T")
Decoder: TypeAlias = Callable[[object, str], T]
"""Turns a JSON value, found at a path, into a T. Raises DecodeError, which names path and value."""

_LONGEST: Final = 120
"""Characters of a value in a message."""


def rendered(value: object) -> str:
    """Return `value` as JSON, cut for a message."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        # json.loads ran further up the stack: json.dumps may reach the recursion limit here.
        text = f"{type(value).__name__} nested too deeply"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def expected(what: str, value: object, path: str) -> DecodeError:
    """Return the error for a value that is not `what`."""
    return DecodeError(f"{path}: expected {what}, got {rendered(value)}")


def string(value: object, path: str) -> str:
    """Read a string."""
    if not isinstance(value, str):
        raise expected("a string", value, path)
    return value


def boolean(value: object, path: str) -> bool:
    """Read true or false; nothing else counts as either."""
    if not isinstance(value, bool):
        raise expected("true or false", value, path)
    return value


def _integer_of(bits: int) -> Decoder[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def decode(value: object, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise expected(f"a whole number from {low} to {high}", value, path)
        return value

    return decode


int32: Final = _integer_of(32)
"""Reads a whole number of 32 bits."""


def _port(value: object, path: str) -> int | str:
    return value if isinstance(value, str) else int32(value, path)


def _quantity(value: object, path: str) -> str:
    """Read a quantity and keep its text; YAML makes a number of `1`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise expected("a quantity", value, path)
    text = str(value).strip()
    try:
        parse_quantity(text)
    except QuantityError as error:
        raise DecodeError(f"{path}: Invalid value: {rendered(value)}: {error}") from None
    return text


def _base64(value: object, path: str) -> str:
    """Read the text of bytes in base64, and keep it: objects are stored as JSON."""
    text = string(value, path)
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        raise expected("base64", value, path) from None
    return text


Int32: TypeAlias = Annotated[int, int32]
"""A whole number of 32 bits."""
Int64: TypeAlias = Annotated[int, _integer_of(64)]
"""A whole number of 64 bits."""
Port: TypeAlias = Annotated[int | str, _port]
"""A port: a number, or the name of a port of the container."""
QuantityText: TypeAlias = Annotated[str, _quantity]
"""A quantity as it is written, such as `100m`."""
Base64: TypeAlias = Annotated[str, _base64]
"""Bytes as text."""

_PLAIN: Final[dict[object, Decoder[Any]]] = {str: string, bool: boolean}


def decoder_of(annotation: object) -> Decoder[Any]:
    """Return the decoder for an annotation: a type above, a class with `decode`, lists and objects of these.

    An absent value is not read, so `None` beside a type needs no decoder.
    """
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        read: Decoder[Any] = arguments[1]
        return read
    if origin is list:
        return _list_of(decoder_of(arguments[0]))
    if origin is dict:
        return _dict_of(decoder_of(arguments[1]))
    if arguments:
        return decoder_of(next(each for each in arguments if each is not type(None)))
    nested: Decoder[Any] = annotation.decode  # type: ignore[attr-defined]  # any other is a mistake in a class
    return nested


def _list_of(decode: Decoder[T]) -> Decoder[list[T]]:
    def decode_list(value: object, path: str) -> list[T]:
        if not isinstance(value, list):
            raise expected("a list", value, path)
        return [decode(item, f"{path}[{index}]") for index, item in enumerate(value)]

    return decode_list


def _dict_of(decode: Decoder[T]) -> Decoder[dict[str, T]]:
    """Return the decoder of an object with free keys, which keep their spelling."""

    def decode_dict(value: object, path: str) -> dict[str, T]:
        if not isinstance(value, dict):
            raise expected("an object", value, path)
        return {key: decode(item, f"{path}.{key}") for key, item in value.items() if item is not None}

    return decode_dict
