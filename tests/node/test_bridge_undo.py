"""An ADD of the bridge plugin that fails, at whatever step, leaves the node as it found it."""

from ipaddress import ip_interface
from pathlib import Path
from typing import Any

import pytest

from firewall.owner import Owner
from harness.snapshot import Snapshot
from netlink.namespace import open_namespace
from netlink.rtnl import Rtnl
from plugins.bridge import host as bridge_host
from plugins.bridge.config import BridgeConfig
from plugins.bridge.gateways import ensure_gateways
from plugins.bridge.host import BridgeUndo
from skel import Undo
from tests.attachments import KEPT_BY_NODE, Network, bridge_config
from tests.node.faults import FaultAt, answer_lost_at, failing_at, fails_at_every_step, owners
from tests.node.firewall import inside
from tests.nodes import HANG, Node


def have_a_bridge(node: Node) -> None:
    """Make br0 as an administrator may have left it: down, with an uplink, an address and no MAC of its own."""
    node.run(["ip", "link", "add", "br0", "type", "bridge"])
    node.run(["ip", "link", "add", "uplink", "type", "veth", "peer", "name", "wire"])
    node.run(["ip", "link", "set", "uplink", "master", "br0", "up"])
    node.run(["ip", "address", "add", "192.0.2.1/24", "brd", "+", "dev", "br0"])


@pytest.mark.mostly_slow(4, "each request to the kernel; a part is in make test")
@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
def test_add_with_any_failed_request_leaves_nothing(
    node: Node, direct_bin_dir: Path, fault_at: FaultAt, *, existing: bool
) -> None:
    keys = {"promiscMode": True, "forceAddress": True} if existing else {"hairpinMode": True}
    config = bridge_config(ipMasq=True, macspoofchk=True, isDefaultGateway=True, **keys)
    if existing:
        have_a_bridge(node)
    node.pod_namespace("one")

    assert fails_at_every_step(node, direct_bin_dir, config, fault_at) >= 12


def pod_state(node: Node) -> list[Any]:
    return [link["ifname"] for link in node.ip("link", "show", netns=f"{node.path}-one")]


@pytest.fixture
def cold(node: Node, bin_dir: Path) -> tuple[Network, Snapshot]:
    """A network without a pod, and the state of its node: an existing namespace, nothing else."""
    network = Network(node, bin_dir, bridge_config(ipMasq=True, macspoofchk=True))
    node.pod_namespace("one")
    return network, node.state()


def fails_without_trace(cold: tuple[Network, Snapshot], fragment: str, **keys: object) -> None:
    network, before = cold
    error = network.fail("ADD", "one", **keys)

    assert fragment in error["msg"] + error.get("details", "")
    network.node.assert_same_state(before, ignore=KEPT_BY_NODE, within=HANG)
    assert pod_state(network.node) == ["lo"]
    assert "id-one" not in owners(network.node)


def test_the_delegate_is_missing(cold: tuple[Network, Snapshot]) -> None:
    fails_without_trace(cold, "no-such-plugin", ipam={"type": "no-such-plugin"})


def test_the_delegate_fails(cold: tuple[Network, Snapshot]) -> None:
    fails_without_trace(cold, "10.1", ipam={"type": "host-local", "subnet": "10.1"})


def test_no_address_is_free(cold: tuple[Network, Snapshot]) -> None:
    network, _ = cold
    ranges = {"subnet": "10.88.0.0/29", "rangeStart": "10.88.0.2", "rangeEnd": "10.88.0.2"}
    taken = network.config | {"ipam": {"type": "host-local", **ranges}}
    netns = network.namespace("one")
    ran = network.node.plugin(
        network.bin_dir, "host-local", "ADD", taken, container_id="other", ifname="eth0", netns=netns
    )
    assert ran.code == 0

    before = network.node.state()
    fails_without_trace((network, before), "10.88.0.2", ipam={"type": "host-local", **ranges})


def test_the_interface_exists_in_the_pod(cold: tuple[Network, Snapshot]) -> None:
    network, before = cold
    netns = network.namespace("one")
    network.node.run(["ip", "link", "add", "eth0", "type", "bridge"], netns=netns)

    error = network.fail("ADD", "one")
    assert "eth0" in error["msg"]
    network.node.assert_same_state(before, ignore=KEPT_BY_NODE)
    assert pod_state(network.node) == ["lo", "eth0"]


def test_a_route_that_the_kernel_refuses(cold: tuple[Network, Snapshot]) -> None:
    ipam = {"type": "host-local", "subnet": "10.88.0.0/16", "routes": [{"dst": "0.0.0.0/0", "gw": "203.0.113.1"}]}
    fails_without_trace(cold, "203.0.113.1", ipam=ipam)


def test_a_route_that_mixes_families(cold: tuple[Network, Snapshot]) -> None:
    ipam = {"type": "host-local", "subnet": "10.88.0.0/16", "routes": [{"dst": "0.0.0.0/0", "gw": "fd00:88::1"}]}
    fails_without_trace(cold, "route to 0.0.0.0/0: fd00:88::1 is no gateway of its family", ipam=ipam)


def test_the_bridge_has_another_address(cold: tuple[Network, Snapshot]) -> None:
    network, _ = cold
    network.node.run(["ip", "link", "add", "br0", "address", "02:00:00:00:00:01", "type", "bridge"])
    network.node.run(["ip", "link", "set", "br0", "addrgenmode", "none"])  # no address of the kernel's own
    network.node.run(["ip", "address", "add", "192.0.2.1/24", "dev", "br0"])
    network.node.run(["ip", "link", "set", "br0", "up"])

    before = network.node.state()
    fails_without_trace((network, before), '"br0" already has an IP address different from 10.88.0.1/16')


def test_add_with_a_foreign_link_as_bridge_leaves_no_trace(cold: tuple[Network, Snapshot]) -> None:
    network, _ = cold
    network.node.run(["ip", "link", "add", "br0", "type", "veth", "peer", "name", "br1"])

    before = network.node.state()
    fails_without_trace((network, before), '"br0" exists already but is not a bridge')


def test_the_pod_has_no_namespace(cold: tuple[Network, Snapshot]) -> None:
    network, before = cold
    error = network.fail("ADD", "one", netns="/run/netns/never-there")

    assert error["code"] == 4
    assert "CNI_NETNS" in error["msg"]
    network.node.assert_same_state(before)


def test_a_second_add_fails_and_changes_nothing(cold: tuple[Network, Snapshot]) -> None:
    network, _ = cold
    result = network.succeed("ADD", "one")
    before = network.node.state()
    addresses = network.addresses("one")

    for keys in ({}, {"prevResult": result}):
        error = network.fail("ADD", "one", **keys)
        assert "exists already" in error["msg"]
    network.node.assert_same_state(before)
    assert network.addresses("one") == addresses
    assert network.ping("one", "10.88.0.1")


def test_a_shared_bridge_survives_another_pods_failure(cold: tuple[Network, Snapshot]) -> None:
    network, _ = cold
    network.succeed("ADD", "one")
    network.node.pod_namespace("two")

    network.fail("ADD", "two", ipam={"type": "no-such-plugin"})
    assert network.ping("one", "10.88.0.1")


@pytest.mark.parametrize("connected", ["before", "meanwhile"])
def test_failing_add_keeps_the_bridge_settings_of_another_pod(node: Node, connected: str) -> None:
    """Nobody can tell whether the ADD of a pod that was connected before is over."""
    config = BridgeConfig.decode(bridge_config(promiscMode=True))
    have_a_bridge(node)

    def connect(host: Rtnl) -> None:
        alias = Owner("another", "id-another", "eth0").label()
        with open_namespace(node.pod_namespace("another")) as pod:
            bridge = bridge_host.require_bridge(host, "br0")
            with Undo(print) as undo:
                bridge_host.connect(host, bridge, config, undo, name="another", peer="eth0", namespace=pod, alias=alias)

    def fail() -> None:
        with BridgeUndo(print, host, "br0", "own") as undo:
            bridge = bridge_host.ensure_bridge(host, config, undo)
            present = host.addresses(bridge.ifindex)
            ensure_gateways(host, bridge, [ip_interface("10.88.0.1/16")], present, force=True, undo=undo)
            if connected == "meanwhile":
                connect(host)
            raise TimeoutError

    with inside(node.path), Rtnl() as host:
        if connected == "before":
            connect(host)
        with pytest.raises(TimeoutError):
            fail()

    [bridge] = node.ip("address", "show", "dev", "br0")
    assert {"UP", "PROMISC"} <= set(bridge["flags"])
    assert "10.88.0.1" in [address["local"] for address in bridge["addr_info"]]
