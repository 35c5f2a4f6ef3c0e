"""Neighbours and forwarding databases, with `ip` and `bridge` as witnesses."""

import json
from collections.abc import Iterator
from ipaddress import ip_address
from socket import AF_BRIDGE, AF_INET, AF_INET6
from typing import Any

import pytest

from netlink.namespace import open_namespace
from netlink.neighbours import (
    NTF_SELF,
    NUD_PERMANENT,
    Neighbour,
    delete_forwarding,
    delete_neighbour,
    list_neighbours,
    set_forwarding,
    set_neighbour,
)
from netlink.rtnl import Rtnl
from netlink.wire import NetlinkError
from tests.kernel import has_link_kind, lacking
from tests.nodes import Node

FAMILIES = {"192.0.2.1": AF_INET, "2001:db8::1": AF_INET6}
MACS = ["02:00:00:00:00:01", "02:00:00:00:00:02"]


@pytest.fixture
def rtnl(node: Node) -> Iterator[Rtnl]:
    """A node with the links "br0" and "br1", up."""
    for name in ("br0", "br1"):
        node.run(["ip", "link", "add", name, "up", "type", "bridge"])
    with open_namespace(node.path) as namespace, Rtnl(namespace) as handle:
        yield handle


def index_of(rtnl: Rtnl, name: str) -> int:
    link = rtnl.link(name)
    assert link is not None
    return link.ifindex


def ours(rtnl: Rtnl, family: int, name: str = "") -> list[Neighbour]:
    """Return the entries, but for those that the kernel makes for groups."""
    listed = list_neighbours(rtnl, family, ifindex=index_of(rtnl, name) if name else 0)
    return [each for each in listed if each.state == NUD_PERMANENT]


@pytest.mark.parametrize("dst", FAMILIES)
def test_set_neighbour_is_permanent_and_replaces(node: Node, rtnl: Rtnl, dst: str) -> None:
    for mac in MACS:
        rtnl.send(set_neighbour(index_of(rtnl, "br0"), ip_address(dst), mac, protocol=200))

    (shown,) = node.ip("neigh", "show", "dev", "br0")
    assert (dst, MACS[1], ["PERMANENT"], "200") == (
        shown["dst"],
        shown["lladdr"],
        shown["state"],
        shown["protocol"],
    )
    expected = Neighbour(index_of(rtnl, "br0"), ip_address(dst), MACS[1], NUD_PERMANENT, flags=0, protocol=200)
    assert [expected] == ours(rtnl, FAMILIES[dst], "br0")


@pytest.mark.parametrize("dst", FAMILIES)
def test_delete_neighbour_says_whether_the_entry_existed(node: Node, rtnl: Rtnl, dst: str) -> None:
    node.run(["ip", "neigh", "add", dst, "lladdr", MACS[0], "dev", "br0"])
    first = delete_neighbour(index_of(rtnl, "br0"), ip_address(dst))
    second = delete_neighbour(index_of(rtnl, "br0"), ip_address(dst))

    rtnl.send(first, second)

    assert (first.answer, second.answer) == (True, False)
    assert node.ip("neigh", "show", "dev", "br0") == []


def test_neighbours_of_one_link_of_all_and_of_both_families(node: Node, rtnl: Rtnl) -> None:
    for name, dst in (("br0", "192.0.2.1"), ("br1", "192.0.2.2")):
        node.run(["ip", "neigh", "add", dst, "lladdr", MACS[0], "dev", name])

    assert [(index_of(rtnl, "br1"), "192.0.2.2", 0)] == [
        (each.ifindex, str(each.dst), each.protocol) for each in ours(rtnl, AF_INET, "br1")
    ]
    assert {str(each.dst) for each in ours(rtnl, AF_INET)} == {"192.0.2.1", "192.0.2.2"}
    node.run(["ip", "neigh", "add", "2001:db8::1", "lladdr", MACS[0], "dev", "br1"])
    assert {str(each.dst) for each in ours(rtnl, 0, "br1")} == {"192.0.2.2", "2001:db8::1"}


def test_neighbour_without_an_answer_has_no_hardware_address(node: Node, rtnl: Rtnl) -> None:
    node.run(["ip", "neigh", "add", "192.0.2.9", "dev", "br0", "nud", "none"])

    (found,) = [each for each in list_neighbours(rtnl, AF_INET) if str(each.dst) == "192.0.2.9"]

    assert (found.lladdr, found.state) == ("", 0)


def test_neighbour_of_a_missing_link_is_an_error(rtnl: Rtnl) -> None:
    with pytest.raises(NetlinkError, match=f"set neighbour 192.0.2.1 of link 9999 to {MACS[0]}: No such device"):
        rtnl.send(set_neighbour(9999, ip_address("192.0.2.1"), MACS[0]))


@pytest.fixture
def vxlan(node: Node, rtnl: Rtnl) -> int:
    """A VXLAN link's number."""
    if not has_link_kind(node, "vxlan", "id", "7", "dstport", "4789"):
        lacking("vxlan")
    node.run(["ip", "link", "add", "vxlan0", "type", "vxlan", "id", "7", "dstport", "4789"])
    return index_of(rtnl, "vxlan0")


def forwarding(node: Node) -> list[Any]:
    """Return the pairs of hardware address and tunnel's end that `bridge` shows."""
    shown = json.loads(node.run(["bridge", "-j", "fdb", "show", "dev", "vxlan0"]).stdout)
    assert [each for each in shown if each["flags"] != ["self"] or each["state"] != "permanent"] == []
    return sorted((each["mac"], each["dst"]) for each in shown)


def test_forwarding_to_one_end_is_replaced_and_deleted(node: Node, rtnl: Rtnl, vxlan: int) -> None:
    rtnl.send(*(set_forwarding(vxlan, MACS[0], ip_address(end)) for end in ("192.0.2.8", "192.0.2.9")))

    assert forwarding(node) == [(MACS[0], "192.0.2.9")]
    expected = Neighbour(vxlan, ip_address("192.0.2.9"), MACS[0], NUD_PERMANENT, NTF_SELF, protocol=0)
    assert [expected] == list_neighbours(rtnl, AF_BRIDGE, ifindex=vxlan)
    first, second = (delete_forwarding(vxlan, MACS[0], ip_address("192.0.2.9")) for _ in range(2))
    rtnl.send(first, second)
    assert (first.answer, second.answer) == (True, False)
    assert forwarding(node) == []


@pytest.mark.parametrize("mac", ["00:00:00:00:00:00", "01:00:5e:00:00:01"])
def test_group_is_forwarded_to_each_end(node: Node, rtnl: Rtnl, vxlan: int, mac: str) -> None:
    ends = ["192.0.2.8", "192.0.2.9"]
    rtnl.send(*(set_forwarding(vxlan, mac, ip_address(end)) for end in [*ends, ends[0]]))
    assert forwarding(node) == [(mac, end) for end in ends]

    rtnl.send(delete_forwarding(vxlan, mac, ip_address(ends[0])))

    assert forwarding(node) == [(mac, ends[1])]
