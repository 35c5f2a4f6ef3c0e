"""Fixtures of the tests of host-device: a node with a device for a pod."""

from pathlib import Path

import pytest

from tests.attachments import Network
from tests.node.host_device.devices import DEVICE, config
from tests.nodes import Neighbours, Node


@pytest.fixture
def network(node: Node, direct_bin_dir: Path, wire: Neighbours) -> Network:
    """The device has addresses, a route and an alternative name; it is up."""
    assert wire.ifname == DEVICE
    node.run(["ip", "link", "set", DEVICE, "mtu", "1450"])
    node.run(["ip", "link", "property", "add", "dev", DEVICE, "altname", "enp0s31f6"])
    node.run(["ip", "route", "add", "203.0.113.0/24", "via", "192.0.2.2", "dev", DEVICE, "metric", "70"])
    node.run(["ip", "-6", "route", "add", "2001:db8:7::/48", "via", "2001:db8::2", "dev", DEVICE])
    return Network(node, direct_bin_dir, config())


@pytest.fixture
def either(network: Network, bin_dir: Path) -> Network:
    """The same with both kinds of executables."""
    return Network(network.node, bin_dir, network.config)


@pytest.fixture
def unplugged(node: Node, direct_bin_dir: Path) -> Network:
    """The device has neither addresses nor a neighbour."""
    node.run(["ip", "link", "add", DEVICE, "type", "veth", "peer", "name", "uplink1"])
    return Network(node, direct_bin_dir, config(ipam={}))
