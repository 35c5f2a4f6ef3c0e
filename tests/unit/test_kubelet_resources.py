"""Quantities, the requests of a whole pod, and its class of service."""

from fractions import Fraction

import pytest

from harness.kubelet.pod_resources import pod_limits, pod_requests, qos_class
from harness.kubelet.quantity import parse_quantity, quantity_in_milli, quantity_in_units
from tests.unit.kubelet_objects import pod

ALWAYS = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1", 1),
        ("-1", -1),
        ("+2", 2),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("100m", Fraction(1, 10)),
        ("1u", Fraction(1, 10**6)),
        ("1n", Fraction(1, 10**9)),
        ("1k", 1000),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 2**10),
        ("1.5Mi", 3 * 2**19),
        ("2Gi", 2**31),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E-3", Fraction(1, 1000)),
        ("1E3", 1000),
    ],
)
def test_quantity(text: str, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "m", "1K", "1mi", "1ki", "0x1", "1,5", "1e", "1..2", "--1", "1MiB", "\u0661"]
)
def test_bad_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "milli", "units"),
    [("1", 1000, 1), ("100m", 100, 1), ("1u", 1, 1), ("1500m", 1500, 2), ("-1500m", -1500, -2)],
)
def test_quantities_are_rounded_away_from_zero(text: str, milli: int, units: int) -> None:
    assert (quantity_in_milli(text), quantity_in_units(text)) == (milli, units)


def asks(name: str, **requests: str) -> dict[str, object]:
    return {"name": name, "resources": {"requests": requests, "limits": requests}}


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([asks("a", cpu="100m", memory="1Mi"), asks("b", cpu="1")], [], {"cpu": 1100, "memory": 2**20}),
        # The largest init container counts if it asks for more than all others together.
        ([asks("a", cpu="1")], [asks("i", cpu="2"), asks("j", memory="1")], {"cpu": 2000, "memory": 1}),
        ([asks("a", cpu="3")], [asks("i", cpu="2")], {"cpu": 3000}),
        # Sidecars run together with the regular containers, and with the init containers after them.
        ([asks("a", cpu="1")], [asks("s", cpu="1") | ALWAYS], {"cpu": 2000}),
        ([asks("a", cpu="1")], [asks("s", cpu="1") | ALWAYS, asks("i", cpu="3")], {"cpu": 4000}),
        ([asks("a", cpu="1")], [asks("i", cpu="3"), asks("s", cpu="1") | ALWAYS], {"cpu": 3000}),
    ],
)
def test_requests_and_limits_of_a_pod(containers: list[object], init: list[object], expected: dict[str, int]) -> None:
    made = pod(containers, initContainers=init)

    assert pod_requests(made) == expected
    assert pod_limits(made) == expected


def container(requests: dict[str, str], limits: dict[str, str], name: str = "a") -> dict[str, object]:
    return {"name": name, "resources": {"requests": requests, "limits": limits}}


FULL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        ([container({}, {})], [], "BestEffort"),
        ([container({"cpu": "0"}, {"memory": "0"})], [], "BestEffort"),
        ([container({"example.com/thing": "1"}, {})], [], "BestEffort"),
        ([container(FULL, FULL)], [], "Guaranteed"),
        ([container(FULL, {"cpu": "1000m", "memory": "1024Mi"})], [], "Guaranteed"),
        ([container({"cpu": "1"}, FULL)], [], "Burstable"),
        ([container({"cpu": "1"}, {"cpu": "1"})], [], "Burstable"),
        ([container({}, {"cpu": "1"})], [], "Burstable"),
        ([container(FULL, FULL), container({}, {}, "b")], [], "Burstable"),
        ([container(FULL, FULL), container(FULL, FULL, "b")], [], "Guaranteed"),
        ([container(FULL, FULL)], [container({}, {}, "i")], "Burstable"),
        ([container({}, {})], [container({"cpu": "1"}, {}, "i")], "Burstable"),
    ],
)
def test_class_of_service(containers: list[object], init: list[object], expected: str) -> None:
    assert qos_class(pod(containers, initContainers=init)) == expected
