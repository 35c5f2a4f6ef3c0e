"""The device of the tests of host-device, and its state on the host."""

from typing import Any

from netlink.namespace import remove_namespace
from tests.attachments import Network
from tests.masters import IPAM, names
from tests.nodes import HANG, Node, until_usable

DEVICE = "uplink0"


def config(**keys: Any) -> dict[str, Any]:
    """Return a configuration of the plugin; `keys` replace or add."""
    return {"cniVersion": "1.1.0", "name": "net", "type": "host-device", "device": DEVICE, "ipam": IPAM} | keys


def device_link(network: Network, netns: str | None, ifname: str = "eth0") -> dict[str, Any]:
    """Return an interface of a pod, or of the node for None, as ip(8) describes it."""
    found: dict[str, Any]
    [found] = network.node.ip("-d", "link", "show", "dev", ifname, netns=netns)
    return found


def records(node: Node) -> list[str]:
    """Return the names of the files that remember devices."""
    return sorted(path.name for path in node.var_lib_cni.glob("host-device/*/*"))


def assert_back(network: Network, before: Any, netns: str | None = None) -> None:
    """Raise AssertionError unless the device is as it was: name, addresses, routes, state."""
    until_usable(network.node, DEVICE)
    network.node.assert_same_state(before, ignore=["files/*networks*"], within=HANG)
    assert records(network.node) == []
    if netns:
        assert names(network.node, netns) == {"lo"}


def assert_back_without_pod(network: Network, before: Any) -> None:
    """Do the same if the pod's namespace is gone."""
    until_usable(network.node, DEVICE)
    network.node.assert_same_state(before, ignore=["files/*networks*", "node/namespace/*"], within=HANG)
    assert records(network.node) == []


def put_back_by_the_kernel(network: Network, pod: str, ifname: str = "eth0") -> None:
    """Move the device to the host and remove the namespace, as the kernel does with hardware.

    By hand, because a virtual interface ends with its namespace.
    """
    home = network.node.name
    network.node.run(["ip", "link", "set", ifname, "netns", home], netns=network.namespace(pod))
    remove_namespace(network.namespace(pod))
