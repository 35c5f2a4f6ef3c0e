"""The host's side of the bridge plugin: what udev, other ADDs and kernels without VLANs would do to it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ipaddress import ip_interface
from pathlib import Path
from threading import Barrier

import pytest

from netlink.link import Link
from netlink.namespace import current_namespace, entered, open_namespace
from netlink.rtnl import Rtnl
from plugins.attach.host_veth import host_veth_name
from plugins.bridge import gateways as bridge_gateways
from plugins.bridge import host as bridge_host
from plugins.bridge.config import BridgeConfig
from plugins.bridge.host import BridgeUndo
from tests.attachments import Network, bridge_config
from tests.nodes import HANG, Node, until

AT_ONCE = 8
GATEWAY = ip_interface("10.88.0.1/16")
OWN = host_veth_name("id-failing", "eth0")
"""The port of a pod whose ADD a test goes through step by step."""


def test_links_have_set_macs_so_that_udev_keeps_them(node: Node, bin_dir: Path) -> None:
    result = Network(node, bin_dir, bridge_config()).add("one")

    names = [interface["name"] for interface in result["interfaces"][:2]]
    look = "mount -t sysfs none /sys && cd /sys/class/net && cat " + " ".join(
        f"{name}/addr_assign_type" for name in names
    )
    # NET_ADDR_SET of include/uapi/linux/netdevice.h, not NET_ADDR_RANDOM.
    assert node.run(["unshare", "--mount", "sh", "-c", look]).stdout.split() == ["3", "3"]


@contextmanager
def on(node: Node, kind: type[Rtnl] = Rtnl) -> Iterator[Rtnl]:
    with open_namespace(node.path) as namespace, entered(namespace), kind() as host:
        yield host


def vlan_gateway(host: Rtnl, undo: BridgeUndo, **keys: object) -> Link:
    """The gateway of VLAN 0, which is none: the same steps, and every kernel takes them."""
    config = BridgeConfig.decode(bridge_config(**keys))
    bridge = bridge_host.ensure_bridge(host, config, undo)
    with current_namespace() as here:
        return bridge_gateways.ensure_vlan_gateway(host, bridge, config, here, undo)


def test_many_make_the_gateway_of_a_vlan_at_once(node: Node) -> None:
    all_have_looked = Barrier(AT_ONCE, timeout=HANG)

    class Hesitant(Rtnl):
        def link(self, name_or_index: str | int) -> Link | None:
            found = super().link(name_or_index)
            if found is None:
                all_have_looked.wait()
            return found

    def make(_: int) -> Link:
        with on(node, Hesitant) as host, BridgeUndo(print, host, "br0", OWN) as undo:
            return vlan_gateway(host, undo)

    with ThreadPoolExecutor(AT_ONCE) as at_once:
        made = list(at_once.map(make, range(AT_ONCE)))

    assert [(link.name, link.ifindex) for link in made] == [("br0.0", made[0].ifindex)] * AT_ONCE


@pytest.mark.parametrize("others", [0, 1])
def test_failing_add_keeps_the_vlan_gateway_of_other_pods(node: Node, bin_dir: Path, others: int) -> None:
    network = Network(node, bin_dir, bridge_config(isGateway=False))
    for pod in ("failing", "other")[: 1 + others]:
        network.add(pod)
    for end in ("uplink", "to-br0.7"):  # which are no pods
        node.run(["ip", "link", "add", end, "master", "br0", "type", "veth", "peer", "name", f"of-{end}"])

    def fail() -> None:
        with on(node) as host, BridgeUndo(print, host, "br0", OWN) as undo:
            holder = vlan_gateway(host, undo)
            bridge_gateways.ensure_gateways(
                host, holder, [GATEWAY], host.addresses(holder.ifindex), force=False, undo=undo
            )
            raise TimeoutError

    with ThreadPoolExecutor(1) as at_once, pytest.raises(TimeoutError):
        at_once.submit(fail).result()

    held = [link for link in node.ip("-4", "addr", "show") if link.get("ifname") == "br0.0"]
    assert [address["local"] for link in held for address in link["addr_info"]] == ["10.88.0.1"] * others


def test_isolated_pods_reach_the_gateway_of_their_vlan(node: Node, bin_dir: Path) -> None:
    network = Network(node, bin_dir, bridge_config(isGateway=False, portIsolation=True))
    network.add("one")

    def make() -> None:
        with on(node) as host, BridgeUndo(print, host, "br0", OWN) as undo:
            holder = vlan_gateway(host, undo, portIsolation=True)
            bridge_gateways.ensure_gateways(
                host, holder, [GATEWAY], host.addresses(holder.ifindex), force=False, undo=undo
            )

    with ThreadPoolExecutor(1) as at_once:
        at_once.submit(make).result()

    until(lambda: network.ping("one", str(GATEWAY.ip)))  # the VLAN of the bridge comes up after the fact
