"""portmap with more mappings than one netlink attribute holds (64 KiB: about 700)."""

import json
from pathlib import Path

import pytest

from tests.nodes import Node


@pytest.mark.parametrize("count", [1000, 4000])
def test_thousands_of_mappings_are_added_checked_and_removed(node: Node, bin_dir: Path, count: int) -> None:
    netns = node.pod_namespace("pod")
    mappings = [{"hostPort": 1024 + index, "containerPort": 80, "protocol": "tcp"} for index in range(count)]
    result = {
        "cniVersion": "1.0.0",
        "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": netns}],
        "ips": [{"address": "10.88.0.5/24", "interface": 1}],
    }
    config = {"cniVersion": "1.0.0", "name": "net", "type": "portmap", "prevResult": result}
    config["runtimeConfig"] = {"portMappings": mappings}

    def run(verb: str) -> str:
        ran = node.plugin(bin_dir, "portmap", verb, config, container_id="one", ifname="eth0", netns=netns)
        return "" if ran.code == 0 else str(ran.stdout["msg"])

    def mapped() -> int:
        return json.dumps(node.nft()).count('"comment": "net/one/eth0"')

    assert (run("ADD"), mapped()) == ("", count)
    assert run("CHECK") == ""
    node.run(["nft", "delete", "element", "inet", "cni_harness_portmap", "ports4", "{ tcp . 1500 }"])
    assert run("CHECK") != ""
    assert (run("DEL"), mapped()) == ("", 0)


@pytest.mark.slow("thousands of mappings; ADD, CHECK and DEL of thousands are in make test")
def test_thousands_of_mappings_go_with_gc(node: Node, bin_dir: Path) -> None:
    netns = node.pod_namespace("pod")
    mappings = [{"hostPort": 1024 + index, "containerPort": 80, "protocol": "udp"} for index in range(2000)]
    result = {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": netns}]}
    result["ips"] = [{"address": "10.88.0.5/24", "interface": 0}]
    config = {"cniVersion": "1.1.0", "name": "net", "type": "portmap", "prevResult": result}
    config["runtimeConfig"] = {"portMappings": mappings}
    added = node.plugin(bin_dir, "portmap", "ADD", config, container_id="one", ifname="eth0", netns=netns)
    assert added.code == 0, added

    collected = node.plugin(bin_dir, "portmap", "GC", config | {"cni.dev/valid-attachments": []})

    assert collected.code == 0, collected
    assert "net/one/eth0" not in json.dumps(node.nft())
