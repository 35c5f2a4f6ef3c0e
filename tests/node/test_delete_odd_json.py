"""DEL of every plugin goes on with JSON that other verbs refuse: a key written twice, bytes that are no UTF-8."""

import json
from pathlib import Path

import pytest

from launch import PLUGINS
from tests.nodes import Node

KEYS: dict[str, dict[str, object]] = {
    "dhcp": {"ipam": {"type": "dhcp"}},
    "host-local": {"ipam": {"type": "host-local", "subnet": "10.88.0.0/24"}},
    "vrf": {"vrfname": "blue"},
}
TWICE = '{"mtu": 1400, "cniVersion": "1.0.0", "name": "other", "name": "net", "mtu": 1500, '


@pytest.mark.parametrize("kind", sorted(PLUGINS))
def test_del_takes_the_last_of_a_key_written_twice(node: Node, bin_dir: Path, kind: str) -> None:
    text = TWICE + json.dumps({"type": kind, **KEYS.get(kind, {})})[1:]
    netns = node.pod_namespace("pod")

    deleted = node.plugin(bin_dir, kind, "DEL", text, container_id="one", ifname="eth0", netns=netns)
    refused = node.plugin(bin_dir, kind, "ADD", text, container_id="one", ifname="eth0", netns=netns)

    assert deleted.code == 0, deleted
    assert "the key is written twice" in deleted.stderr
    assert (refused.code, refused.stdout["code"]) == (1, 6)


def test_del_with_a_name_written_twice_releases_the_address_of_the_last(node: Node, bin_dir: Path) -> None:
    ipam = {"type": "host-local", "subnet": "10.88.0.0/24"}
    config = {"cniVersion": "1.0.0", "name": "net", "type": "bridge", "bridge": "br0", "ipam": ipam}
    netns = node.pod_namespace("pod")
    assert node.plugin(bin_dir, "bridge", "ADD", config, container_id="one", ifname="eth0", netns=netns).code == 0
    reserved = node.var_lib_cni / "networks" / "net" / "10.88.0.2"
    assert reserved.exists()

    text = '{"name": "other", ' + json.dumps(config)[1:]
    deleted = node.plugin(bin_dir, "bridge", "DEL", text, container_id="one", ifname="eth0", netns=netns)

    assert deleted.code == 0, deleted
    assert not reserved.exists()
    assert not node.ip("link", "show", "type", "veth")
