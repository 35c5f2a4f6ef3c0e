"""host-local's key `exclude`: addresses and networks of a range that no pod gets."""

import ipaddress
import random
from pathlib import Path
from typing import Any

import pytest

from harness.validation.address_ranges import range_flaws, ranges_of
from ipam.ranges import Range, resolve
from skel import CniError
from tests.unit.host_local import HostLocal

SUBNET = "192.0.2.0/29"


def host_local(folder: Path, *exclude: str, **keys: Any) -> HostLocal:
    return HostLocal(folder / "networks", ranges=[[{"subnet": SUBNET, "exclude": list(exclude)} | keys]])


def given(net: HostLocal) -> list[str]:
    """Add pods until no address is free; return their addresses in this order."""
    found: list[str] = []
    for number in range(20):
        added = net.run("ADD", f"pod{number}")
        if added.code:
            assert (added.code, added.printed["code"]) == (1, 11)
            return found
        found += [ip["address"].partition("/")[0] for ip in added.printed["ips"]]
    raise AssertionError(found)


@pytest.mark.parametrize(
    ("exclude", "expected"),
    [
        ([], [2, 3, 4, 5, 6]),
        (["192.0.2.2"], [3, 4, 5, 6]),
        (["192.0.2.4/31"], [2, 3, 6]),
        (["192.0.2.6", "192.0.2.2", "192.0.2.2/32"], [3, 4, 5]),
        (["192.0.2.0/30", "192.0.2.1", "192.0.2.7"], [4, 5, 6]),
    ],
)
def test_excluded_addresses_are_given_to_no_pod(tmp_path: Path, exclude: list[str], expected: list[int]) -> None:
    net = host_local(tmp_path, *exclude)

    assert given(net) == [f"192.0.2.{number}" for number in expected]


def test_old_spelling_has_exclude_beside_subnet(tmp_path: Path) -> None:
    net = HostLocal(tmp_path / "networks", ranges=[], subnet=SUBNET, exclude=["192.0.2.3"])

    assert given(net) == ["192.0.2.2", "192.0.2.4", "192.0.2.5", "192.0.2.6"]


def test_requested_address_that_is_excluded_is_refused(tmp_path: Path) -> None:
    net = host_local(tmp_path, "192.0.2.4")

    code, message = net.fail("ADD", args="IP=192.0.2.4")

    assert (code, message) == (7, 'CNI_ARGS: IP: expected an address of the network\'s ranges, got "192.0.2.4"')
    assert not net.folder.exists()


def test_pod_keeps_an_address_that_is_excluded_later(tmp_path: Path) -> None:
    net = host_local(tmp_path)
    result = net.succeed("ADD", "pod").printed
    later = host_local(tmp_path, "192.0.2.2")

    later.succeed("CHECK", "pod", prevResult=result)
    assert later.succeed("ADD", "other").printed["ips"][0]["address"] == "192.0.2.3/29"
    later.succeed("DEL", "pod")
    assert later.reservations() == {"192.0.2.3": "other\r\neth0"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"exclude": ["192.0.3.1"]},
            'ipam.ranges[0][0].exclude[0]: expected addresses of 192.0.2.0/29, got "192.0.3.1/32"',
        ),
        ({"exclude": ["192.0.2.0/28"]}, "ipam.ranges[0][0].exclude[0]: expected addresses of 192.0.2.0/29"),
        (
            {"exclude": ["192.0.2.1/29"]},
            "exclude[0]: expected a network address without host bits, such as 192.0.2.0/29",
        ),
        ({"exclude": ["fd00::1"]}, "exclude[0]: expected addresses of 192.0.2.0/29"),
        ({"exclude": ["web"]}, 'exclude[0]: expected an IP address or a CIDR, got "web"'),
        ({"exclude": "192.0.2.1"}, 'exclude: expected a list, got "192.0.2.1"'),
        ({"exclude": [SUBNET]}, "ipam.ranges[0][0].exclude: expected an address of 192.0.2.1-192.0.2.6 to remain"),
    ],
)
def test_unsound_exclude_is_refused_by_key_and_value(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    net = HostLocal(tmp_path / "networks", ranges=[[{"subnet": SUBNET} | keys]])

    code, said = net.fail("ADD")

    assert code == 7
    assert message in said
    net.succeed("DEL")
    if keys["exclude"] not in (["web"], "192.0.2.1", ["192.0.2.1/29"]):  # the schema names these
        assert list(range_flaws(net.config["ipam"], "ipam", lambda *_: None))


def test_exclude_without_a_subnet_beside_it_is_refused(tmp_path: Path) -> None:
    net = HostLocal(tmp_path / "networks", ranges=[[{"subnet": SUBNET}]], exclude=["192.0.2.4"])

    code, message = net.fail("ADD")

    assert code == 7
    assert message.startswith("ipam.exclude: expected ipam.subnet beside it")


def _network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, length: int) -> str:
    return str(ipaddress.ip_network(f"{address}/{length}", strict=False))


def test_random_excludes_leave_the_other_addresses_in_order_and_count() -> None:
    """Also the range's size of `cni-harness networks`, which restates the rules."""
    draw = random.Random(22)  # noqa: S311 -- the same ranges in each run of the test
    refused = 0
    for _ in range(300):
        subnet = ipaddress.ip_network(draw.choice(["198.51.100.0/26", "2001:db8::/122"]))
        everything = [subnet[index] for index in range(subnet.num_addresses)]
        longest = subnet.max_prefixlen
        exclude = [
            _network(draw.choice(everything), draw.randint(longest - 5, longest)) for _ in range(draw.randint(0, 6))
        ]
        declared = {"subnet": str(subnet), "exclude": exclude, "gateway": str(draw.choice(everything))}
        unwanted = [ipaddress.ip_network(each) for each in exclude]
        last = len(everything) - (subnet.version == 4)
        expected = [
            each
            for each in everything[1:last]
            if str(each) != declared["gateway"] and not any(each in network for network in unwanted)
        ]
        try:
            (range_set,) = resolve([("ipam.ranges[0]", [Range.decode(declared, "")])])
        except CniError:
            refused += 1
            assert len(expected) <= 1
            continue

        assert [each for each, _ in range_set.candidates(None)] == expected
        assert range_set.size == len(expected)
        ((shown,),) = ranges_of({"ranges": [[declared]]})
        assert shown.size == len(expected)
    assert refused < 50


def test_exclude_of_half_an_ipv6_subnet_takes_no_time() -> None:
    declared = {"subnet": "2001:db8::/64", "exclude": ["2001:db8::/65"]}

    (range_set,) = resolve([("ipam.ranges[0]", [Range.decode(declared, "")])])

    assert str(next(range_set.candidates(None))[0]) == "2001:db8:0:0:8000::"
