"""A bridge that somebody else made, as `ip link add` or a distribution's network scripts make it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from netlink.namespace import open_namespace
from netlink.rtnl import Rtnl
from plugins.bridge import host as bridge_host
from plugins.bridge.config import BridgeConfig
from plugins.bridge.host import BridgeUndo
from tests.attachments import Network, bridge_config
from tests.node.firewall import inside
from tests.nodes import Node

AT_ONCE = 6
LOWEST = "00:11:22:33:44:55"
"""As that of real hardware is: below every MAC that is administered locally."""
NONE = "00:00:00:00:00:00"


@pytest.fixture
def network(node: Node, bin_dir: Path) -> Network:
    """A network on a bridge that has neither ports nor a MAC of its own."""
    node.run(["ip", "link", "add", "br0", "type", "bridge"])
    return Network(node, bin_dir, bridge_config())


def mac_of(network: Network) -> str:
    (bridge,) = network.node.ip("link", "show", "br0")
    return str(bridge["address"])


@pytest.mark.parametrize("is_gateway", [True, False])
def test_its_mac_stays_as_pods_come_and_go(network: Network, *, is_gateway: bool) -> None:
    before = mac_of(network)
    result = network.add("one", isGateway=is_gateway)
    seen = {mac_of(network)}
    for number in range(3):
        network.add(f"pod-{number}", isGateway=is_gateway)
        seen.add(mac_of(network))
    network.succeed("DEL", "pod-0", isGateway=is_gateway)

    assert seen | {mac_of(network)} == {before}
    assert result["interfaces"][0]["mac"] == before
    network.succeed("CHECK", "one", isGateway=is_gateway, prevResult=result)


def test_the_result_tells_the_mtu_that_it_took_from_its_first_port(network: Network) -> None:
    result = network.add("one", mtu=9000)

    (bridge,) = network.node.ip("link", "show", "br0")
    assert (bridge["mtu"], result["interfaces"][0]["mtu"]) == (9000, 9000)


def add_uplink(network: Network) -> None:
    ends = ["uplink", "address", LOWEST, "type", "veth", "peer", "name", "wire"]
    network.node.run(["ip", "link", "add", *ends])
    network.node.run(["ip", "link", "set", "uplink", "master", "br0", "up"])


def let_a_port_come_and_go(network: Network) -> None:
    add_uplink(network)
    network.node.run(["ip", "link", "delete", "uplink"])


def test_mac_of_the_bridge_is_never_the_mac_of_a_port(network: Network) -> None:
    node, config = network.node, BridgeConfig.decode(network.config)
    before = mac_of(network)
    with inside(node.path), Rtnl() as host, open_namespace(node.pod_namespace("pod")) as pod:
        seen = []
        for name in ("one", "two"):
            with BridgeUndo(print, host, config.bridge, name) as undo:
                bridge = bridge_host.ensure_bridge(host, config, undo)
                bridge, _, _ = bridge_host.connect(host, bridge, config, undo, name=name, peer=name, namespace=pod)
            seen.append(bridge.mac)

    assert [*seen, mac_of(network)] == [before] * 3


@pytest.mark.parametrize("without_mac", [False, True])
def test_parallel_adds_report_the_lasting_mac_of_the_bridge(network: Network, *, without_mac: bool) -> None:
    if without_mac:
        let_a_port_come_and_go(network)
    for number in range(AT_ONCE):
        network.node.pod_namespace(f"pod-{number}")
    with ThreadPoolExecutor(AT_ONCE) as at_once:
        results = list(at_once.map(lambda number: network.succeed("ADD", f"pod-{number}"), range(AT_ONCE)))

    assert {result["interfaces"][0]["mac"] for result in results} == {mac_of(network)}
    for number, result in enumerate(results):
        network.succeed("CHECK", f"pod-{number}", prevResult=result)


@pytest.mark.parametrize("is_gateway", [True, False])
def test_bridge_keeps_the_mac_of_a_removed_uplink(network: Network, *, is_gateway: bool) -> None:
    add_uplink(network)
    result = network.add("one", isGateway=is_gateway)
    assert mac_of(network) == LOWEST

    network.node.run(["ip", "link", "delete", "uplink"])

    assert mac_of(network) == LOWEST
    network.succeed("CHECK", "one", isGateway=is_gateway, prevResult=result)


def test_bridge_without_mac_gets_a_lasting_mac(network: Network) -> None:
    let_a_port_come_and_go(network)
    assert mac_of(network) == NONE

    result = network.add("one")
    network.add("two")
    network.succeed("DEL", "one")

    assert mac_of(network) == result["interfaces"][0]["mac"] != NONE
    assert network.ping("two", "10.88.0.1")


def test_neighbours_set_by_hand_survive_the_next_pods(network: Network) -> None:
    """The kernel forgets them when a MAC is set, even to the same one."""
    network.add("one")
    network.node.run(["ip", "neighbour", "add", "10.88.9.9", "lladdr", LOWEST, "dev", "br0", "nud", "permanent"])
    network.add("two")

    [neighbour] = network.node.ip("neighbour", "show", "10.88.9.9")
    assert neighbour["lladdr"] == LOWEST


def accept_ra(network: Network) -> str:
    return network.node.run(["sysctl", "-n", "net.ipv6.conf.br0.accept_ra"]).stdout.strip()


def test_add_disables_router_advertisements_on_an_existing_bridge(network: Network) -> None:
    network.node.run(["sysctl", "-qw", "net.ipv6.conf.br0.accept_ra=2"])
    network.add("one")

    assert accept_ra(network) == "0"


def test_failing_add_restores_router_advertisements(network: Network) -> None:
    network.node.run(["sysctl", "-qw", "net.ipv6.conf.br0.accept_ra=2"])
    network.node.pod_namespace("one")

    network.fail("ADD", "one", ipam={"type": "no-such-plugin"})
    assert accept_ra(network) == "2"
