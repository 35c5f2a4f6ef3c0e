"""CNI_NETNS is a symbolic link that leads to the node's own namespace by the time that the plugin opens it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import entered, open_namespace
from plugins import bridge, loopback, macvlan
from skel import Code, Plugin, dispatch, environment
from tests.attachments import bridge_config
from tests.nodes import Node

CONFIGS = {
    # Without an IPAM plugin, which would look at CNI_NETNS too.
    "bridge": bridge_config(ipam={}),
    "macvlan": {"cniVersion": "1.1.0", "name": "net", "type": "macvlan", "master": "eth0"},
    "loopback": {"cniVersion": "1.1.0", "name": "lo", "type": "loopback"},
}


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
@pytest.mark.parametrize("plugin", [bridge.PLUGIN, loopback.PLUGIN, macvlan.PLUGIN], ids=lambda plugin: plugin.name)
def test_nothing_of_the_node_is_changed(
    node: Node, direct_bin_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: Plugin[Any], verb: str
) -> None:
    node.run(["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "wire"])
    node.run(["ip", "link", "set", "lo", "up"])
    if (plugin.name, verb) == ("bridge", "ADD"):
        node.run(["ip", "link", "delete", "eth0"])
    pod, link = node.pod_namespace("pod"), tmp_path / "netns"
    link.symlink_to(pod)
    look = environment.is_own_namespace

    def look_and_let_another_swap(*args: Any) -> bool:
        seen = look(*args)
        link.unlink()
        link.symlink_to(node.path)
        return seen

    monkeypatch.setattr(sys.modules["skel.dispatch"], "is_own_namespace", look_and_let_another_swap)
    environ = {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": "id-pod",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": str(link),
        "CNI_PATH": str(direct_bin_dir),
    }
    before = node.state()
    with open_namespace(node.path) as namespace, entered(namespace):
        outcome = dispatch(plugin, environ, json.dumps(CONFIGS[plugin.name]).encode)

    assert json.loads(outcome.stdout)["code"] == Code.INVALID_NETNS, outcome
    node.assert_same_state(before)
