"""Quantities as Kubernetes writes them (k8s.io/apimachinery, pkg/api/resource): `100m`, `1.5Gi`, `2e6`."""

import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

__all__ = ["QuantityError", "quantity_milli", "quantity_value"]

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?\d+))?"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class QuantityError(ValueError):
    """The text is not a quantity."""


def quantity_value(text: str) -> int:
    """Return a quantity as a whole number, rounded up. Raises QuantityError."""
    return _rounded_up(_parsed(text))


def quantity_milli(text: str) -> int:
    """Return a quantity in thousandths, rounded up: CPU `0.5` is 500. Raises QuantityError."""
    return _rounded_up(_parsed(text) * 1000)


def _rounded_up(number: Decimal) -> int:
    return int(number.to_integral_value(rounding=ROUND_CEILING))


def _parsed(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError("quantities must match a number with an optional suffix, as 100m, 64Mi or 1e6")
    number = Decimal(match["number"])
    if match["exponent"]:
        return number.scaleb(int(match["exponent"]))
    suffix = match["suffix"] or ""
    return number * 2 ** _BINARY[suffix] if suffix in _BINARY else number.scaleb(_DECIMAL[suffix])
