"""Quantities of resources as numbers to calculate with; `harness.quantity` reads them."""

from fractions import Fraction

from harness import quantity
from harness.quantity import quantity_milli as quantity_in_milli
from harness.quantity import quantity_value as quantity_in_units

__all__ = ["parse_quantity", "quantity_in_milli", "quantity_in_units"]


def parse_quantity(text: str) -> Fraction:
    """Return the value of a quantity: CPUs, bytes, or a count. Raises QuantityError, with the API server's text."""
    return Fraction(quantity.parse_quantity(text).nano, 10**9)
