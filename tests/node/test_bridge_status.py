"""STATUS of the bridge plugin: whether its IPAM plugin could serve an ADD."""

from pathlib import Path

from tests.attachments import Network, bridge_config
from tests.nodes import Node

ONE_ADDRESS = {"type": "host-local", "subnet": "10.88.0.0/24", "rangeStart": "10.88.0.2", "rangeEnd": "10.88.0.2"}


def test_an_exhausted_range_is_told(node: Node, bin_dir: Path) -> None:
    network = Network(node, bin_dir, bridge_config(ipam=ONE_ADDRESS))
    # As containerd asks: without container ID, interface and namespace.
    assert node.plugin(bin_dir, "bridge", "STATUS", network.config).code == 0
    network.add("one")

    ran = node.plugin(bin_dir, "bridge", "STATUS", network.config)
    assert (ran.code, ran.stdout["code"]) == (1, 50)
    network.succeed("DEL", "one")
    assert node.plugin(bin_dir, "bridge", "STATUS", network.config).code == 0


def test_a_missing_delegate_is_told(node: Node, bin_dir: Path) -> None:
    ran = node.plugin(bin_dir, "bridge", "STATUS", bridge_config(ipam={"type": "no-such-plugin"}))

    assert (ran.code, ran.stdout["code"]) == (1, 50)
