"""Kubernetes quantities: `100m`, `64Mi`, `1.5`, `2e3` (apimachinery's api/resource/quantity.go).

A quantity is kept in billionths, the smallest step in Kubernetes. Smaller fractions are rounded up.
"""

import re
from typing import Final, NamedTuple

_NANO: Final = 10**9
_MILLI: Final = 10**6
"""Billionths in a thousandth."""

_FORM: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_WRONG_FORM: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # Go's own words
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")
_LONGEST: Final = 100
"""Characters of a quantity, and the highest exponent: Go has no such limit, but works with few digits."""
_HIGHEST_BINARY: Final = 2**63 - 1


class QuantityError(ValueError):
    """A text that is no quantity; the message is Kubernetes' own."""


class Quantity(NamedTuple):
    """An amount of a resource, and the notation in which it was written."""

    nano: int
    """The amount in billionths."""

    form: str = "DecimalSI"
    """DecimalSI, BinarySI or DecimalExponent."""

    @property
    def value(self) -> int:
        """The amount, rounded up to a whole number."""
        return _away_from_zero(self.nano, _NANO)

    @property
    def milli_value(self) -> int:
        """The amount in thousandths, rounded up: millicores of a CPU quantity."""
        return _away_from_zero(self.nano, _MILLI)

    def rounded_up_to_milli(self) -> "Quantity":
        """Return the quantity without digits below a thousandth (the API server's SetDefaults_ResourceList)."""
        return self._replace(nano=_away_from_zero(self.nano, _MILLI) * _MILLI)

    def __str__(self) -> str:
        """Return the canonical notation: the largest suffix that needs no fraction."""
        if not self.nano:
            return "0"
        whole, fraction = divmod(self.nano, _NANO)
        if self.form == "BinarySI" and not fraction and not -1024 < whole < 1024:  # noqa: PLR2004 -- 1Ki
            return _with_binary_suffix(whole)
        return self._with_decimal_suffix()

    def _with_decimal_suffix(self) -> str:
        number, exponent = self.nano, -9
        while exponent < 18 and number % 1000 == 0:  # noqa: PLR2004 -- the exponent of E, the last suffix
            number //= 1000
            exponent += 3
        if self.form == "DecimalExponent":
            return f"{number}e{exponent}" if exponent else str(number)
        return str(number) + next(suffix for suffix, power in _DECIMAL.items() if power == exponent)


def parse_quantity(text: str) -> Quantity:
    """Read a quantity (Kubernetes' ParseQuantity). Raises QuantityError."""
    matched = _FORM.fullmatch(text)
    if not text or matched is None or len(text) > _LONGEST:
        raise QuantityError(_WRONG_FORM)
    sign, whole, fraction, suffix = matched.groups(default="")
    power, base, form = _read_suffix(suffix)
    numerator, denominator = int(whole + fraction or "0") * _NANO, 10 ** len(fraction)
    if power >= 0:
        numerator *= base**power
    else:
        denominator *= base**-power
    nano = _away_from_zero(numerator, denominator)
    if form == "BinarySI":
        nano = min(nano, _HIGHEST_BINARY * _NANO)
        if nano < _NANO:
            form = "DecimalSI"
    return Quantity(-nano if sign == "-" else nano, form)


def quantity_value(text: str) -> int:
    """Return a quantity as a whole number, rounded up. Raises QuantityError."""
    return parse_quantity(text).value


def quantity_milli(text: str) -> int:
    """Return a quantity in thousandths, rounded up: CPU `0.5` is 500. Raises QuantityError."""
    return parse_quantity(text).milli_value


def _read_suffix(suffix: str) -> tuple[int, int, str]:
    """Return power, base and notation of a suffix. Raises QuantityError."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 10, "DecimalSI"
    if suffix in _BINARY:
        return _BINARY[suffix], 2, "BinarySI"
    if (matched := _EXPONENT.fullmatch(suffix)) and abs(power := int(matched[1])) <= _LONGEST:
        return power, 10, "DecimalExponent"
    raise QuantityError("unable to parse quantity's suffix")


def _away_from_zero(numerator: int, denominator: int) -> int:
    quotient = -(-abs(numerator) // denominator)
    return -quotient if numerator < 0 else quotient


def _with_binary_suffix(number: int) -> str:
    suffix = ""
    for larger in _BINARY:
        if number % 1024:
            break
        number //= 1024
        suffix = larger
    return f"{number}{suffix}"
