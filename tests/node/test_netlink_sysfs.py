"""What sysfs tells of links, whether or not /sys is that of the namespace."""

import sys

import pytest

from netlink.rtnl import Rtnl
from netlink.sysfs import has_set_mac
from tests.node.firewall import inside
from tests.nodes import Node

MAC = "02:00:00:00:00:01"
OTHER = "02:00:00:00:00:02"
ASK = f"""
from netlink.sysfs import has_set_mac
print(*(has_set_mac(name, mac) for name, mac in [("random", "{MAC}"), ("set", "{OTHER}")]))
"""


@pytest.fixture
def links(node: Node) -> Node:
    """A node with a bridge whose MAC was set, and one whose MAC is its port's."""
    node.run(["ip", "link", "add", "set", "address", OTHER, "type", "bridge"])
    node.run(["ip", "link", "add", "random", "type", "bridge"])
    node.run(["ip", "link", "add", "port", "address", MAC, "type", "veth", "peer", "name", "wire"])
    node.run(["ip", "link", "set", "port", "master", "random"])
    return node


@pytest.mark.parametrize("mount", ["true", "mount -t sysfs none /sys", "mount -t tmpfs none /sys"])
def test_set_macs_are_distinguished_from_random_macs(links: Node, mount: str) -> None:
    ran = links.run(
        ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, "-c", ASK],
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )

    assert ran.stdout.split() == ["False", "True"]


def test_mac_set_to_its_present_value_counts_as_set(links: Node) -> None:
    with inside(links.path), Rtnl() as rtnl:
        bridge = rtnl.link("random")
        assert bridge is not None
        rtnl.set_mac(bridge.ifindex, bridge.mac)

        assert has_set_mac("random", MAC)


def test_missing_link_has_no_set_mac(node: Node) -> None:
    with inside(node.path):
        assert not has_set_mac("nowhere", MAC)
