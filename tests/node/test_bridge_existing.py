"""A bridge that somebody else made, as `ip link add` or a distribution's network scripts make it."""

from pathlib import Path

import pytest

from tests.attachments import Network, bridge_config
from tests.nodes import Node


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
