"""Nodes on a machine that forwards packets, as with Docker: `tools/vm/tests.sh` sets the parameters."""

from pathlib import Path

from netlink.namespace import create_namespace, remove_namespace
from tests.nodes import Node

PARAMETERS = {
    "ip_forward": "0",
    "conf/all/rp_filter": "0",
    "conf/lo/rp_filter": "0",
    "conf/lo/promote_secondaries": "0",
}


def test_nodes_inherit_no_forwarding_parameters(node: Node) -> None:
    inheriting = f"{node.path}-inheriting"
    files = [f"/proc/sys/net/ipv4/{name}" for name in PARAMETERS]
    create_namespace(inheriting)
    try:
        assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == "1\n"
        assert node.run(["cat", *files], netns=inheriting).stdout.split() == ["1", "2", "2", "1"]
    finally:
        remove_namespace(inheriting)

    assert node.run(["cat", *files]).stdout.split() == list(PARAMETERS.values())
    assert node.run(["cat", *files], netns=node.pod_namespace("pod")).stdout.split() == list(PARAMETERS.values())
