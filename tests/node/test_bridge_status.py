"""STATUS of the bridge plugin: whether its IPAM plugin could serve an ADD."""

from pathlib import Path

from tests.attachments import Network, bridge_config
from tests.nodes import Node

ONE_ADDRESS = {"type": "host-local", "subnet": "10.88.0.0/24", "rangeStart": "10.88.0.2", "rangeEnd": "10.88.0.2"}


def test_an_exhausted_range_is_a_warning(node: Node, bin_dir: Path) -> None:
    network = Network(node, bin_dir, bridge_config(ipam=ONE_ADDRESS))
    network.add("one")

    ran = node.plugin(bin_dir, "bridge", "STATUS", network.config)

    assert (ran.code, ran.stdout) == (0, None)
    assert "warning: no address is free in ipam (10.88.0.2-10.88.0.2)" in ran.stderr


def test_an_exhausted_range_is_an_error_if_the_key_says_so(node: Node, bin_dir: Path) -> None:
    network = Network(node, bin_dir, bridge_config(ipam=ONE_ADDRESS | {"statusFailsWhenFull": True}))
    # As containerd asks: without container ID, interface and namespace.
    assert node.plugin(bin_dir, "bridge", "STATUS", network.config).code == 0
    network.add("one")

    ran = node.plugin(bin_dir, "bridge", "STATUS", network.config)
    assert (ran.code, ran.stdout["code"]) == (1, 50)
    network.succeed("DEL", "one")
    assert node.plugin(bin_dir, "bridge", "STATUS", network.config).code == 0


def test_status_reports_a_missing_delegate(node: Node, bin_dir: Path) -> None:
    ran = node.plugin(bin_dir, "bridge", "STATUS", bridge_config(ipam={"type": "no-such-plugin"}))

    assert (ran.code, ran.stdout["code"]) == (1, 50)


def test_status_reports_a_bridge_name_of_another_kind_of_link(node: Node, bin_dir: Path) -> None:
    node.run(["ip", "link", "add", "br0", "type", "veth", "peer", "name", "wire"])

    ran = node.plugin(bin_dir, "bridge", "STATUS", bridge_config())

    assert (ran.code, ran.stdout["code"]) == (1, 50)
    assert ran.stdout["msg"] == 'bridge: "br0" exists already but is not a bridge'
    node.run(["ip", "link", "delete", "br0"])
    assert node.plugin(bin_dir, "bridge", "STATUS", bridge_config()).code == 0


def test_status_reports_a_bridge_without_vlan_filtering(node: Node, bin_dir: Path) -> None:
    node.run(["ip", "link", "add", "br0", "type", "bridge"])
    assert node.plugin(bin_dir, "bridge", "STATUS", bridge_config()).code == 0

    ran = node.plugin(bin_dir, "bridge", "STATUS", bridge_config(vlan=100))

    assert (ran.code, ran.stdout["code"]) == (1, 50)


def test_status_reports_keys_that_exclude_each_other(node: Node, bin_dir: Path) -> None:
    ran = node.plugin(bin_dir, "bridge", "STATUS", bridge_config(hairpinMode=True, promiscMode=True))

    assert (ran.code, ran.stdout["code"]) == (1, 7)
