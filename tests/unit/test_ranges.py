"""Sound ranges, their defaults, and the order in which they are handed out."""

import ipaddress
from itertools import islice
from typing import Any

import pytest

from ipam.ranges import Range, RangeSet, resolve
from skel import CniError


def sets(*declared: list[dict[str, Any]]) -> list[RangeSet]:
    """Range sets as the key `ipam.ranges` declares them."""
    return resolve(
        [
            (f"ipam.ranges[{index}]", [Range.decode(known, "") for known in ranges])
            for index, ranges in enumerate(declared)
        ]
    )


def of(*subnets: str) -> RangeSet:
    """One set of whole subnets."""
    return sets([{"subnet": subnet} for subnet in subnets])[0]


def order(range_set: RangeSet, last: str = "") -> list[str]:
    """Addresses in the order of the round robin."""
    return [
        str(address) for address, _ in islice(range_set.candidates(ipaddress.ip_address(last) if last else None), 300)
    ]


@pytest.mark.parametrize(
    ("subnet", "first", "last", "gateway"),
    [
        ("192.0.2.0/24", "192.0.2.1", "192.0.2.254", "192.0.2.1"),
        ("192.0.2.0/25", "192.0.2.1", "192.0.2.126", "192.0.2.1"),
        ("192.0.2.4/30", "192.0.2.5", "192.0.2.6", "192.0.2.5"),
        ("2001:db8:1::/64", "2001:db8:1::1", "2001:db8:1:0:ffff:ffff:ffff:ffff", "2001:db8:1::1"),
        ("2001:db8:1::/126", "2001:db8:1::1", "2001:db8:1::3", "2001:db8:1::1"),
    ],
)
def test_a_subnet_alone_gives_the_rest(subnet: str, first: str, last: str, gateway: str) -> None:
    (span,) = of(subnet).spans

    assert (first, last, gateway) == (str(span.first), str(span.last), str(span.gateway))


def test_declared_ends_and_gateway_are_kept() -> None:
    (range_set,) = sets(
        [
            {
                "subnet": "192.0.2.0/24",
                "rangeStart": "192.0.2.40",
                "rangeEnd": "192.0.2.42",
                "gateway": "192.0.2.254",
            }
        ]
    )

    assert str(range_set) == "192.0.2.40-192.0.2.42"
    assert order(range_set) == ["192.0.2.40", "192.0.2.41", "192.0.2.42"]
    assert range_set.size == 3
    assert str(range_set.spans[0].gateway) == "192.0.2.254"


def test_empty_ends_are_absent() -> None:
    (range_set,) = sets([{"subnet": "192.0.2.0/30", "rangeStart": "", "rangeEnd": None, "gateway": ""}])

    assert str(range_set) == "192.0.2.1-192.0.2.2"


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            {"subnet": "192.0.2.0/24", "gateway": "2001:db8::1"},
            'gateway: expected an IPv4 address, as the subnet\'s, got "2001:db8::1"',
        ),
        (
            {"subnet": "2001:db8::/64", "gateway": "192.0.2.1"},
            'gateway: expected an IPv6 address, as the subnet\'s, got "192.0.2.1"',
        ),
        ({"subnet": "192.0.2.0/31"}, 'subnet: expected a subnet large enough to allocate from, got "192.0.2.0/31"'),
        ({"subnet": "192.0.2.0/32"}, 'subnet: expected a subnet large enough to allocate from, got "192.0.2.0/32"'),
        ({"subnet": "2001:db8::/127"}, "subnet: expected a subnet large enough"),
        ({"subnet": "2001:db8::/128"}, "subnet: expected a subnet large enough"),
        (
            {"subnet": "192.0.2.12/24"},
            'subnet: expected a network address without host bits, such as 192.0.2.0/24, got "192.0.2.12/24"',
        ),
        ({"subnet": "2001:db8:24:19ff::/63"}, "without host bits, such as 2001:db8:24:19fe::/63"),
        ({"subnet": "::ffff:192.0.2.0/120"}, "subnet: expected an IPv4 subnet in its own notation"),
        (
            {"subnet": "192.0.2.0/24", "rangeStart": "192.0.3.0"},
            'rangeStart: expected an address of 192.0.2.0/24, got "192.0.3.0"',
        ),
        ({"subnet": "192.0.2.0/24", "rangeStart": "2001:db8::1"}, "rangeStart: expected an address of 192.0.2.0/24"),
        (
            {"subnet": "192.0.2.0/24", "rangeEnd": "192.0.4.0"},
            'rangeEnd: expected an address of 192.0.2.0/24, got "192.0.4.0"',
        ),
        (
            {"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.50", "rangeEnd": "192.0.2.40"},
            'rangeEnd: expected an address not before 192.0.2.50, got "192.0.2.40"',
        ),
        (
            {"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.255"},
            'rangeStart: expected an address not after 192.0.2.254, got "192.0.2.255"',
        ),
    ],
)
def test_an_unsound_range_is_refused_by_key_and_value(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(CniError) as refused:
        sets([{"subnet": "198.51.100.0/24"}], [declared])

    assert refused.value.code == 7
    assert refused.value.msg.startswith("ipam.ranges[1][0].")
    assert message in refused.value.msg


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ([[]], "ipam.ranges[0]: expected at least one range, got []"),
        (
            [[{"subnet": "192.0.2.0/24"}, {"subnet": "2001:db8::/64"}]],
            "ipam.ranges[0][1].subnet: expected an IPv4 subnet as in the rest of the range set, got",
        ),
        (
            [[{"subnet": "10.1.0.0/22"}, {"subnet": "192.0.2.0/24"}, {"subnet": "10.1.2.0/24"}]],
            "ipam.ranges[0][2]: 10.1.2.1-10.1.2.254 overlaps with 10.1.0.1-10.1.3.254 of ipam.ranges[0][0]",
        ),
        (
            [[{"subnet": "10.1.2.0/24"}], [{"subnet": "192.0.2.0/24"}, {"subnet": "10.1.0.0/22"}]],
            "ipam.ranges[1]: 10.1.0.1-10.1.3.254 overlaps with 10.1.2.1-10.1.2.254 of ipam.ranges[0]",
        ),
    ],
)
def test_unsound_sets_are_refused(declared: list[list[dict[str, Any]]], message: str) -> None:
    with pytest.raises(CniError) as refused:
        sets(*declared)

    assert refused.value.code == 7
    assert message in refused.value.msg


def test_two_ranges_of_a_subnet_that_share_no_address_are_fine() -> None:
    (range_set,) = sets(
        [
            {"subnet": "192.0.2.0/24", "rangeEnd": "192.0.2.3"},
            {"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.250"},
        ]
    )

    assert order(range_set) == ["192.0.2.2", "192.0.2.3"] + [f"192.0.2.{host}" for host in range(250, 255)]


# The cases of the reference's own allocator.
@pytest.mark.parametrize(
    ("subnets", "last", "expected"),
    [
        (["10.0.0.0/29"], "", [2, 3, 4, 5, 6]),
        (["10.0.0.0/29"], "10.0.0.6", [2, 3, 4, 5, 6]),
        (["10.0.0.0/29"], "10.0.0.3", [4, 5, 6, 2, 3]),
        (["10.0.0.0/29"], "10.0.0.1", [2, 3, 4, 5, 6]),
        (["10.0.0.0/29"], "10.0.0.128", [2, 3, 4, 5, 6]),
        (["10.0.0.0/29"], "2001:db8::5", [2, 3, 4, 5, 6]),
    ],
)
def test_round_robin_starts_after_the_last_and_wraps(subnets: list[str], last: str, expected: list[int]) -> None:
    assert order(of(*subnets), last) == [f"10.0.0.{host}" for host in expected]


@pytest.mark.parametrize(
    ("last", "expected"),
    [("", [0, 1, 2]), ("10.0.0.2", [1, 2, 0]), ("10.0.1.2", [2, 0, 1]), ("10.0.2.2", [0, 1, 2])],
)
def test_round_robin_takes_the_ranges_in_turn(last: str, expected: list[int]) -> None:
    range_set = of("10.0.0.0/30", "10.0.1.0/30", "10.0.2.0/30")

    assert order(range_set, last) == [f"10.0.{third}.2" for third in expected]


def test_gateways_of_all_sets_are_excluded() -> None:
    one, other = sets(
        [{"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.9", "rangeEnd": "192.0.2.12", "gateway": "192.0.2.10"}],
        [{"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.20", "rangeEnd": "192.0.2.21", "gateway": "192.0.2.12"}],
    )

    assert order(one) == ["192.0.2.9", "192.0.2.11"]
    assert one.size == 2
    assert order(other) == ["192.0.2.20", "192.0.2.21"]


def test_ipv6_counts_beyond_64_bits() -> None:
    range_set = of("2001:db8::/32")

    assert range_set.size == 2**96 - 2
    assert order(range_set, "2001:db8::ffff:ffff:ffff:ffff")[0] == "2001:db8:0:1::"


def calls_to_resolve(count: int) -> int:
    """How many calls it takes to resolve so many ranges, half of them in one set."""
    import sys

    whole = [{"subnet": f"10.{number // 256}.{number % 256}.0/24"} for number in range(count)]
    half = count // 2
    declared = [
        (f"ipam.ranges[{index}]", [Range.decode(known, "") for known in ranges])
        for index, ranges in enumerate([whole[:half], *([each] for each in whole[half:])])
    ]
    calls = 0

    def count_call(_frame: object, event: str, _function: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count_call)
    try:
        sizes = [range_set.size for range_set in resolve(declared)]
    finally:
        sys.setprofile(None)
    assert len(sizes) == 1 + count - half
    return calls


def test_the_cost_of_ranges_grows_with_their_number_and_no_faster() -> None:
    assert calls_to_resolve(800) < 2.2 * calls_to_resolve(400)
