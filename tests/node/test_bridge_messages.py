"""How much an ADD of the bridge plugin asks of the kernel: requests that can go together go in one system call."""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ipam.host_local import PLUGIN as HOST_LOCAL
from netlink.namespace import entered, open_namespace
from netlink.request import RtnlSocket
from netlink.socket import Socket
from plugins.bridge import PLUGIN
from skel import Outcome, dispatch
from skel.plugin import Context
from tests.attachments import Network, bridge_config
from tests.nodes import Node

IPV4 = {"type": "host-local", "subnet": "10.88.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]}
WARM, COLD = 6, 7


def add_in(context: Context, node: Node, bin_dir: Path, config: Mapping[str, Any], pod: str) -> Outcome:
    """Attach a pod in this process."""
    files = {"ipam": {**config["ipam"], "dataDir": str(node.var_lib_cni / "networks")}}
    environ = {
        "CNI_COMMAND": "ADD",
        "CNI_PATH": str(bin_dir),
        "CNI_CONTAINERID": f"id-{pod}",
        "CNI_NETNS": f"{node.path}-{pod}",
        "CNI_IFNAME": "eth0",
    }
    with open_namespace(node.path) as namespace, entered(namespace):
        return dispatch(PLUGIN, environ, json.dumps({**config, **files}).encode, context)


def add(node: Node, bin_dir: Path, config: Mapping[str, Any], pod: str) -> Counter[str]:
    """Attach a pod; return how often functions of ours were called."""
    calls: Counter[str] = Counter()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            sends = frame.f_code is Socket._send.__code__ and isinstance(frame.f_locals["self"], RtnlSocket)
            calls["sends" if sends else frame.f_code.co_name] += 1

    context = Context(find_plugin=lambda _: HOST_LOCAL)
    node.pod_namespace(pod)
    sys.setprofile(watch)
    try:
        outcome = add_in(context, node, bin_dir, config, pod)
    finally:
        sys.setprofile(None)
        context.open_sockets.close()
    assert outcome.code == 0, outcome
    return calls


@pytest.mark.parametrize(
    "keys",
    [
        {"ipam": IPV4},
        {},
        {"isGateway": False},
        {"isDefaultGateway": True, "hairpinMode": True, "portIsolation": True, "mtu": 1400},
        {"promiscMode": True, "macspoofchk": True},
    ],
)
def test_an_add_sends_six_bundles_of_requests(node: Node, direct_bin_dir: Path, keys: Mapping[str, Any]) -> None:
    config = bridge_config(**keys)

    # More by the one that makes the bridge, and by the one that sets it promiscuous.
    assert add(node, direct_bin_dir, config, "first")["sends"] == COLD + bool(keys.get("promiscMode"))
    assert add(node, direct_bin_dir, config, "second")["sends"] == WARM


def test_thousands_of_routes_cost_no_more(node: Node, direct_bin_dir: Path) -> None:
    routes = [{"dst": f"100.64.{number >> 8}.{number & 255}/32"} for number in range(2000)]
    config = bridge_config(ipam={**IPV4, "routes": routes})

    add(node, direct_bin_dir, config, "first")
    assert add(node, direct_bin_dir, config, "second")["sends"] == WARM


def test_sysfs_is_not_asked_and_the_pod_entered_once(node: Node, direct_bin_dir: Path) -> None:
    config = bridge_config()
    for pod in ("first", "second"):
        calls = add(node, direct_bin_dir, config, pod)

        assert calls["mount_nowhere"] == calls["has_set_mac"] == 0
        assert calls["setns"] == 2 + 2  # into the node, which the test does, and into the pod; and back


def test_mac_of_a_foreign_bridge_is_read_once(node: Node, direct_bin_dir: Path) -> None:
    node.run(["ip", "link", "add", "br0", "type", "bridge"])
    network = Network(node, direct_bin_dir, bridge_config())

    assert [add(node, direct_bin_dir, network.config, pod)["has_set_mac"] for pod in ("one", "two", "three")] == [
        1,
        0,
        0,
    ]


def test_add_enables_neighbour_notification(node: Node, direct_bin_dir: Path) -> None:
    add(node, direct_bin_dir, bridge_config(), "one")

    parameters = ["net.ipv4.conf.eth0.arp_notify", "net.ipv6.conf.eth0.ndisc_notify"]
    assert node.run(["sysctl", "-n", *parameters], netns=f"{node.path}-one").stdout.split() == ["1", "1"]


def test_the_hosts_socket_is_kept_until_an_error(node: Node, direct_bin_dir: Path) -> None:
    context = Context(find_plugin=lambda _: HOST_LOCAL)
    config = bridge_config()
    kept = []
    for pod, changes in {
        "one": {},
        "two": {},
        "three": {"ipam": {**IPV4, "subnet": "10.99.0.0/16"}},
        "four": {},
    }.items():
        node.pod_namespace(pod)
        outcome = add_in(context, node, direct_bin_dir, config | changes, pod)
        kept.append((outcome.code, len(context.open_sockets.descriptors())))
    context.open_sockets.close()

    # The gateway of "three" is not the bridge's. Beside the socket, the node's namespace is kept.
    assert kept == [(0, 2), (0, 2), (1, 1), (0, 2)]
