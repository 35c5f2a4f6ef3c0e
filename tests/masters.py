"""Pods with an interface on an interface of their node, its master: common parts of their tests."""

from typing import Any

from tests.attachments import Network
from tests.nodes import Node

IPAM = {
    "type": "host-local",
    "ranges": [
        [{"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.10"}],
        [{"subnet": "2001:db8::/64", "rangeStart": "2001:db8::10"}],
    ],
}
"""Addresses of the wire that `veth_between` makes."""


def link_of(network: Network, pod: str, ifname: str = "eth0") -> dict[str, Any]:
    """Return the pod's interface as ip(8) describes it."""
    found: dict[str, Any]
    [found] = network.node.ip("-d", "link", "show", "dev", ifname, netns=network.namespace(pod))
    return found


def settings_of(network: Network, pod: str, ifname: str = "eth0") -> dict[str, Any]:
    """Return the settings that are peculiar to the interface's kind, which is the plugin's name."""
    found = link_of(network, pod, ifname)["linkinfo"]
    assert found["info_kind"] == network.config["type"]
    return dict(found["info_data"])


def names(node: Node, netns: str | None = None) -> set[str]:
    """Return the names of all links of the node, or of a pod."""
    return {each["ifname"] for each in node.ip("link", netns=netns)}


def reserved(network: Network) -> set[str]:
    """Return the IPv4 addresses that host-local has reserved."""
    return {file.name for file in (network.node.var_lib_cni / "networks/net").glob("192.*")}
