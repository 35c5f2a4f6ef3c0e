"""JSON as other programs read it: Python's own decoder takes NaN and Infinity too, which no plugin could be told."""

import json
from collections.abc import Callable
from typing import NoReturn

__all__ = ["decode_json"]


def decode_json(text: str | bytes, *, as_object: Callable[[list[tuple[str, object]]], object] | None = None) -> object:
    """Parse JSON text; `as_object` makes an object of its members. Raises ValueError, for too many levels too."""
    try:
        document: object = json.loads(
            text, object_pairs_hook=as_object, parse_constant=_refuse_constant, parse_float=_finite
        )
    except RecursionError as error:
        raise ValueError(str(error)) from None
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise ValueError(f"{text} is beyond a 64-bit number")
    return number
