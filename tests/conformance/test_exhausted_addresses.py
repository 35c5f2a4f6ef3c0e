"""Configurations that run out of addresses, made of such as there are."""

import ipaddress
from typing import Any

import pytest

from harness.conformance.engine.failing_adds import ADDRESS_COUNT, with_two_addresses, with_unequal_ranges
from harness.conformance.finding import NotApplicableError


def count(span: dict[str, Any]) -> int:
    first, last = (ipaddress.ip_address(span[key]) for key in ("rangeStart", "rangeEnd"))
    return int(last) - int(first) + 1


@pytest.mark.parametrize("subnet", ["10.66.0.0/28", "10.66.3.4/16", "fd00:66::/64"])
def test_ranges_of_either_form_become_small_ones_inside_the_subnet(subnet: str) -> None:
    flat = with_two_addresses({"type": "x", "subnet": subnet, "other": 1})
    ranges: Any = with_two_addresses({"type": "x", "ranges": [[{"subnet": subnet}, {"subnet": "10.99.0.0/24"}]]})[
        "ranges"
    ]
    [[listed]] = ranges

    assert (flat["type"], flat["other"], flat["subnet"]) == ("x", 1, subnet)
    assert count(flat) == count(listed) == ADDRESS_COUNT
    network = ipaddress.ip_network(subnet, strict=False)
    assert all(ipaddress.ip_address(str(flat[key])) in network for key in ("rangeStart", "rangeEnd"))


def test_narrowed_range_excludes_the_gateway() -> None:
    without = with_two_addresses({"subnet": "10.66.0.0/24"})
    for gateway in (without["rangeStart"], without["rangeEnd"]):
        span = with_two_addresses({"subnet": "10.66.0.0/24", "gateway": gateway})
        first, last = (int(ipaddress.ip_address(str(span[key]))) for key in ("rangeStart", "rangeEnd"))

        assert not first <= int(ipaddress.ip_address(str(gateway))) <= last


def test_the_configuration_itself_stays() -> None:
    ipam = {"ranges": [[{"subnet": "10.66.0.0/24"}]]}
    with_two_addresses(ipam)

    assert ipam == {"ranges": [[{"subnet": "10.66.0.0/24"}]]}


@pytest.mark.parametrize("gateway", [{}, {"gateway": "10.66.0.11"}])
@pytest.mark.parametrize("flat", [True, False])
def test_lopsided_ranges_have_a_second_range_of_one_address(*, flat: bool, gateway: dict[str, str]) -> None:
    span = {"subnet": "10.66.0.0/24", **gateway}
    ipam = with_unequal_ranges({"type": "x", **span} if flat else {"type": "x", "ranges": [[span]]})
    ranges: Any = ipam.pop("ranges")

    [[first], [second]] = ranges
    assert ipam == {"type": "x"}
    assert (count(first), count(second)) == (ADDRESS_COUNT, 1)
    assert int(ipaddress.ip_address(first["rangeEnd"])) < int(ipaddress.ip_address(second["rangeStart"]))
    assert gateway.get("gateway") != second["rangeStart"]


@pytest.mark.parametrize(
    "ipam",
    [
        None,
        {},
        {"type": "dhcp"},
        {"subnet": "none"},
        {"subnet": "10.66.0.0/29"},
        {"ranges": ["none"]},
        {"ranges": [[]]},
    ],
)
def test_other_forms_are_not_guessed_at(ipam: object) -> None:
    with pytest.raises(NotApplicableError):
        with_two_addresses(ipam)
