"""CHECK of the bridge plugin: what others did to the host's side of a pod's network is told."""

from pathlib import Path
from typing import Any

import pytest

from tests.attachments import Network, bridge_config
from tests.nodes import Node


@pytest.fixture
def network(node: Node, bin_dir: Path) -> Network:
    return Network(node, bin_dir, bridge_config())


@pytest.mark.parametrize(
    ("damage", "repair", "named"),
    [
        ("ip link set br0 down", "ip link set br0 up", '"br0" is down'),
        ("ip link set {port} down", "ip link set {port} up", '"{port}" is down'),
        (
            "ip address delete 10.88.0.1/16 dev br0",
            "ip address add 10.88.0.1/16 dev br0",
            'gateway address 10.88.0.1/16 is missing on "br0"',
        ),
        (
            "ip address delete fd00:88::1/64 dev br0",
            "ip address add fd00:88::1/64 dev br0",
            'gateway address fd00:88::1/64 is missing on "br0"',
        ),
        ("sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1", "net.ipv4.ip_forward is 0"),
        (
            "sysctl -qw net.ipv6.conf.all.forwarding=0",
            "sysctl -qw net.ipv6.conf.all.forwarding=1",
            "net.ipv6.conf.all.forwarding is 0",
        ),
    ],
)
def test_check_reports_damage_until_it_is_repaired(network: Network, damage: str, repair: str, named: str) -> None:
    result = network.add("one")
    port = result["interfaces"][1]["name"]
    network.succeed("CHECK", "one", prevResult=result)
    network.node.run(damage.format(port=port).split())

    assert named.format(port=port) in network.fail("CHECK", "one", prevResult=result)["msg"]
    network.node.run(repair.format(port=port).split())
    # The kernel takes the addresses of a bridge that goes down, IPv6 alone; an ADD gives them back.
    if damage != "ip link set br0 down":
        network.succeed("CHECK", "one", prevResult=result)


@pytest.mark.parametrize("keys", [{"isGateway": False}, {"isGateway": False, "ipMasq": True}])
def test_check_does_not_require_forwarding_without_gateway(network: Network, keys: dict[str, Any]) -> None:
    ipam = {"type": "host-local", "subnet": "10.88.0.0/16"}
    result = network.add("one", ipam=ipam, **keys)

    assert network.node.run(["sysctl", "-n", "net.ipv4.ip_forward"]).stdout.strip() == "0"
    network.succeed("CHECK", "one", ipam=ipam, prevResult=result, **keys)


@pytest.mark.parametrize(("key", "flag"), [("hairpinMode", "hairpin"), ("portIsolation", "isolated")])
def test_check_reports_a_lost_port_flag(network: Network, key: str, flag: str) -> None:
    result = network.add("one", **{key: True})
    network.succeed("CHECK", "one", prevResult=result, **{key: True})
    network.node.run(["bridge", "link", "set", "dev", result["interfaces"][1]["name"], flag, "off"])

    assert key in network.fail("CHECK", "one", prevResult=result, **{key: True})["msg"]


def test_check_ignores_a_moved_default_route(network: Network) -> None:
    """A later plugin of the list, such as sbr, may have moved it."""
    result = network.add("one")
    netns = network.namespace("one")
    network.node.run(["ip", "route", "replace", "default", "via", "10.88.0.9", "dev", "eth0"], netns=netns)

    network.succeed("CHECK", "one", prevResult=result)
