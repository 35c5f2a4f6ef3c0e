"""Kubernetes quantities: amounts, rounding up, canonical notation, and errors in Kubernetes' words."""

import pytest

from api.quantity import Quantity, QuantityError, parse_quantity, quantity_milli, quantity_value

FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX = "unable to parse quantity's suffix"


@pytest.mark.parametrize(
    ("text", "milli", "whole", "canonical"),
    [
        ("0", 0, 0, "0"),
        ("1", 1_000, 1, "1"),
        ("+1", 1_000, 1, "1"),
        ("100m", 100, 1, "100m"),
        ("0.1", 100, 1, "100m"),
        (".5", 500, 1, "500m"),
        ("1.", 1_000, 1, "1"),
        ("1.5", 1_500, 2, "1500m"),
        ("1000m", 1_000, 1, "1"),
        ("1n", 1, 1, "1n"),
        ("0.0000000001", 1, 1, "1n"),
        ("1u", 1, 1, "1u"),
        ("2k", 2_000_000, 2_000, "2k"),
        ("1500", 1_500_000, 1_500, "1500"),
        ("64Mi", 64 * 2**20 * 1000, 64 * 2**20, "64Mi"),
        ("1.5Gi", 1536 * 2**20 * 1000, 1536 * 2**20, "1536Mi"),
        ("1024Ki", 2**20 * 1000, 2**20, "1Mi"),
        ("0.5Ki", 512_000, 512, "512"),
        ("0.1Ki", 102_400, 103, "102400m"),
        ("1Ei", 2**60 * 1000, 2**60, "1Ei"),
        ("999Ei", (2**63 - 1) * 1000, 2**63 - 1, "9223372036854775807"),
        ("1E", 10**21, 10**18, "1E"),
        ("1000E", 10**24, 10**21, "1000E"),
        ("2e3", 2_000_000, 2_000, "2e3"),
        ("2E3", 2_000_000, 2_000, "2e3"),
        ("5e-3", 5, 1, "5e-3"),
        ("12e0", 12_000, 12, "12"),
        ("-1500m", -1_500, -2, "-1500m"),
        ("-2Ki", -2_048_000, -2_048, "-2Ki"),
    ],
)
def test_an_amount_is_read_in_each_notation(text: str, milli: int, whole: int, canonical: str) -> None:
    amount = parse_quantity(text)

    assert (milli, whole, canonical) == (amount.milli_value, amount.value, str(amount))
    assert (milli, whole) == (quantity_milli(text), quantity_value(text))
    assert parse_quantity(canonical).nano == amount.nano


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORM),
        ("abc", FORM),
        ("1 Mi", FORM),
        ("1,5", FORM),
        ("1.2.3", FORM),
        ("--1", SUFFIX),
        ("0x10", FORM),
        ("٣", FORM),
        ("1" * 200, FORM),
        ("1\n", FORM),
        ("1ki", SUFFIX),
        ("1K", SUFFIX),
        ("1mi", SUFFIX),
        ("1KiKi", SUFFIX),
        ("1e", SUFFIX),
        ("1e1000000000", SUFFIX),
    ],
)
def test_another_text_is_refused_in_the_words_of_kubernetes(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)

    assert message == str(caught.value)


def test_the_api_server_rounds_up_to_thousandths() -> None:
    assert Quantity(1_000_000) == parse_quantity("1u").rounded_up_to_milli()
    assert str(parse_quantity("100m").rounded_up_to_milli()) == "100m"
    assert str(parse_quantity("100.0001m").rounded_up_to_milli()) == "101m"
