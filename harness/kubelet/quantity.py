"""Quantities of resources, such as `100m` and `64Mi` (apimachinery's resource.Quantity)."""

import re
from fractions import Fraction
from typing import Final

__all__ = ["parse_quantity", "quantity_in_milli", "quantity_in_units"]

_FORM: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])|[eE]([+-]?[0-9]{1,3}))?"
)
_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}


def parse_quantity(text: str) -> Fraction:
    """Return the exact value of a quantity: CPUs, bytes, or a count. Raises ValueError with the API server's text."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    number, suffix, exponent = found.groups()
    return Fraction(number) * (_SUFFIXES[suffix] if suffix else Fraction(10) ** int(exponent or 0))


def quantity_in_units(text: str) -> int:
    """Return a quantity in whole units (bytes, for memory), rounded away from zero. Raises ValueError."""
    return _away_from_zero(parse_quantity(text))


def quantity_in_milli(text: str) -> int:
    """Return a quantity in thousandths (of a CPU), rounded away from zero. Raises ValueError."""
    return _away_from_zero(parse_quantity(text) * 1000)


def _away_from_zero(value: Fraction) -> int:
    rounded = -(-abs(value.numerator) // value.denominator)
    return rounded if value >= 0 else -rounded
