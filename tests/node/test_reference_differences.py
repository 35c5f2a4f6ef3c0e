"""Documented differences from the reference plugins (Debian's): both suites get the same input."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli import REFERENCE_BIN_DIR
from tests.nodes import Node, PluginRun

BRIDGE = {
    "type": "bridge",
    "bridge": "br0",
    "isGateway": True,
    "ipam": {"type": "host-local", "subnet": "10.88.0.0/24"},
}
STATIC = {"type": "bridge", "runtimeConfig": {"ips": ["10.88.0.5/24"]}}


def run(node: Node, folder: Path, type: str, verb: str, netns: str, config: Mapping[str, object]) -> PluginRun:
    whole = {"cniVersion": "1.0.0", "name": "net", **config}
    return node.plugin(folder, type, verb, whole, container_id="one", ifname="eth0", netns=netns)


def test_static_without_ipam_section_takes_the_addresses_of_the_runtime(node: Node, bin_dir: Path) -> None:
    netns = node.pod_namespace("pod")

    added = run(node, bin_dir, "static", "ADD", netns, STATIC)
    refused = run(node, REFERENCE_BIN_DIR, "static", "ADD", netns, STATIC)

    assert (added.code, added.stdout["ips"]) == (0, [{"address": "10.88.0.5/24"}])
    assert "missing 'ipam' key" in refused.stdout["msg"]
    assert run(node, bin_dir, "static", "CHECK", netns, {"type": "bridge", "prevResult": added.stdout}).code == 0
    assert run(node, bin_dir, "static", "ADD", netns, {"type": "bridge"}).stdout["code"] == 7


def test_host_bits_of_a_route_are_dropped(node: Node, bin_dir: Path) -> None:
    netns = node.pod_namespace("pod")
    config = BRIDGE | {"ipam": BRIDGE["ipam"] | {"routes": [{"dst": "10.50.1.7/16"}]}}  # type: ignore[operator]

    added = run(node, bin_dir, "bridge", "ADD", netns, config)

    assert added.stdout["routes"] == [{"dst": "10.50.0.0/16"}]
    assert "10.50.0.0/16" in {route["dst"] for route in node.ip("route", netns=netns)}
    assert run(node, bin_dir, "bridge", "DEL", netns, config).code == 0
    refused = run(node, REFERENCE_BIN_DIR, "bridge", "ADD", netns, config)
    assert (refused.code, "invalid argument" in refused.stdout["msg"]) == (1, True)


@pytest.mark.parametrize("backend", ["nftables", "iptables"])
def test_firewall_entry_after_the_references_del_goes_with_gc(node: Node, bin_dir: Path, backend: str) -> None:
    netns = node.pod_namespace("pod")
    firewall: dict[str, Any] = {"type": "firewall", "backend": backend}
    result = run(node, bin_dir, "bridge", "ADD", netns, BRIDGE).stdout
    assert run(node, bin_dir, "firewall", "ADD", netns, firewall | {"prevResult": result}).code == 0

    for type, config in (("firewall", firewall), ("bridge", BRIDGE)):
        deleted = run(node, REFERENCE_BIN_DIR, type, "DEL", netns, config | {"prevResult": result})
        assert deleted.code == 0, deleted

    assert "10.88.0.2" not in node.run(["iptables-save"]).stdout
    assert "10.88.0.2" in str(node.nft())
    gc = {"cniVersion": "1.1.0", "name": "net", **firewall, "cni.dev/valid-attachments": []}
    assert node.plugin(bin_dir, "firewall", "GC", gc).code == 0
    assert "10.88.0.2" not in str(node.nft())


def test_del_of_a_pod_of_the_reference_removes_its_rules(node: Node, bin_dir: Path) -> None:
    netns = node.pod_namespace("pod")
    firewall: dict[str, Any] = {"type": "firewall", "backend": "iptables"}
    result = run(node, REFERENCE_BIN_DIR, "bridge", "ADD", netns, BRIDGE).stdout
    assert run(node, REFERENCE_BIN_DIR, "firewall", "ADD", netns, firewall | {"prevResult": result}).code == 0
    assert "10.88.0.2" in node.run(["iptables-save"]).stdout

    for type, config in (("firewall", firewall), ("bridge", BRIDGE)):
        assert run(node, bin_dir, type, "DEL", netns, config | {"prevResult": result}).code == 0

    rules = node.run(["iptables-save"]).stdout
    assert "10.88.0.2" not in rules
    assert '-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD' in rules


@pytest.mark.parametrize("type", ["tuning", "firewall", "portmap"])
def test_interface_that_is_no_index_is_refused_by_add_and_not_by_del(node: Node, bin_dir: Path, type: str) -> None:
    netns = node.pod_namespace("pod")
    interfaces = [{"name": "eth0", "sandbox": netns}]
    result = {"cniVersion": "1.0.0", "interfaces": interfaces, "ips": [{"address": "10.88.0.9/24", "interface": 5}]}
    config = {"type": type, "prevResult": result}

    refused = run(node, bin_dir, type, "ADD", netns, config)

    assert refused.stdout["code"] == 7
    assert refused.stdout["msg"] == "prevResult.ips[0].interface: expected an index into the 1 interfaces, got 5"
    assert run(node, bin_dir, type, "DEL", netns, config).code == 0
    assert run(node, REFERENCE_BIN_DIR, type, "ADD", netns, config).code == 0
