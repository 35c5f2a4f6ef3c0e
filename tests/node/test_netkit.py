"""`deviceType: "netkit"` of ptp and bridge: a netkit pair, or a veth pair and a note if the kernel has no netkit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import entered, open_namespace, remove_namespace
from netlink.rtnl import Rtnl
from netlink.wire import NetlinkError
from tests.attachments import DUAL_STACK, Network
from tests.kernel import IS_FULL, lacking
from tests.node.faults import FaultAt, answer_lost_at, failing_at, fails_at_every_step
from tests.nodes import HANG, Node

MAC = "02:00:00:00:00:09"
CONFIGS: dict[str, dict[str, Any]] = {
    "ptp": {"type": "ptp", "ipMasq": True},
    "bridge": {"type": "bridge", "bridge": "br0", "isGateway": True, "ipMasq": True, "macspoofchk": True},
}


def kind_of_pairs(node: Node) -> str:
    """Return the kind of pair that the kernel makes with MACs: netkit, or else veth."""
    pod = node.pod_namespace("probed")
    with open_namespace(pod) as inside, open_namespace(node.path) as namespace, entered(namespace), Rtnl() as host:
        try:
            host.create_veth("probe", kind="netkit", peer_name="eth0", peer_namespace=inside, mac=MAC)
        except NetlinkError:
            # The only machine of `make test-vm` that runs this file was promised to have it.
            if IS_FULL:
                raise
            return "veth"
        host.delete_link("probe")
        return "netkit"


@pytest.fixture
def kind(node: Node) -> str:
    return kind_of_pairs(node)


@pytest.fixture(params=CONFIGS)
def keys(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "deviceType": "netkit", "ipam": DUAL_STACK, **CONFIGS[request.param]}


@pytest.fixture
def network(node: Node, bin_dir: Path, keys: dict[str, Any]) -> Network:
    return Network(node, bin_dir, keys)


@pytest.fixture
def add(network: Network, kind: str) -> Callable[..., dict[str, Any]]:
    """Makes a pod and attaches it; there is a note exactly if the pair is no netkit. Returns the result."""

    def add(pod: str, **changes: Any) -> dict[str, Any]:
        network.node.pod_namespace(pod)
        ran = network.run("ADD", pod, **changes)

        assert ran.code == 0, ran
        assert ("deviceType: this kernel has no netkit" in ran.stderr, "\n" in ran.stderr) == ((kind == "veth",) * 2)
        result: dict[str, Any] = ran.stdout
        return result

    return add


def kinds(network: Network, result: dict[str, Any], pod: str) -> list[str]:
    """Return the kinds of both ends: the host's, the pod's."""
    host_end = next(each["name"] for each in result["interfaces"] if each["name"].startswith("veth"))
    shown = [
        network.node.ip("-d", "link", "show", "dev", host_end),
        network.node.ip("-d", "link", "show", "dev", "eth0", netns=network.namespace(pod)),
    ]
    return [link["linkinfo"]["info_kind"] for [link] in shown]


def test_pods_reach_each_other_and_their_node(network: Network, add: Callable[..., Any], kind: str) -> None:
    first, second = add("one"), add("two")

    assert kinds(network, first, "one") == kinds(network, second, "two") == [kind, kind]
    for address in [*network.addresses("two"), "10.88.0.1", "fd00:88::1"]:
        assert network.ping("one", address), address
    assert network.ping(None, network.addresses("one")[0])
    network.succeed("CHECK", "one", prevResult=first)


def test_mac_and_mtu(network: Network, add: Callable[..., Any]) -> None:
    result = add("one", mtu=1400, runtimeConfig={"mac": MAC})

    [link] = network.node.ip("link", "show", "dev", "eth0", netns=network.namespace("one"))
    assert (link["address"], link["mtu"], result["interfaces"][-1]["mac"]) == (MAC, 1400, MAC)


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize("way", ["with the result", "without the namespace", "the namespace is gone", "GC"])
def test_removal_leaves_nothing(network: Network, add: Callable[..., Any], way: str) -> None:
    add("first")  # makes what pods share
    network.node.pod_namespace("one")
    before = network.node.state()
    ran = network.run("ADD", "one")
    assert ran.code == 0, ran

    if way == "GC":
        valid = [{"containerID": "id-first", "ifname": "eth0"}]
        config = network.config | {"cni.dev/valid-attachments": valid}
        assert network.node.plugin(network.bin_dir, config["type"], "GC", config).code == 0
    elif way == "with the result":
        network.succeed("DEL", "one", prevResult=ran.stdout)
    elif way == "without the namespace":
        network.succeed("DEL", "one", netns="")
    else:
        remove_namespace(network.namespace("one"))
        network.succeed("DEL", "one", prevResult=ran.stdout)
    network.node.assert_same_state(before, ignore=["files/*networks*"], within=HANG)


@pytest.mark.parametrize(
    ("damage", "told"),
    [("ip link set {} down", "is down"), ("ip link delete {}", '"eth0" is missing')],
)
def test_check_tells_damage(network: Network, add: Callable[..., Any], damage: str, told: str) -> None:
    result = add("one")
    host_end = next(each["name"] for each in result["interfaces"] if each["name"].startswith("veth"))
    network.node.run(damage.format(host_end).split())

    error = network.fail("CHECK", "one", prevResult=result)

    assert (error["code"], told in error["msg"]) == (999, True), error


def test_check_accepts_a_veth_pair_under_a_netkit_configuration(network: Network) -> None:
    result = network.add("one", deviceType="veth")

    assert kinds(network, result, "one") == ["veth", "veth"]
    network.succeed("CHECK", "one", prevResult=result)


def test_add_refuses_a_wrong_device_type_and_del_ignores_it(network: Network) -> None:
    network.node.pod_namespace("one")
    before = network.node.state()

    error = network.fail("ADD", "one", deviceType="tap")

    assert (error["code"], error["msg"]) == (7, 'deviceType: expected "veth" or "netkit", got "tap"')
    network.node.assert_same_state(before)
    assert network.run("DEL", "one", deviceType="tap").code == 0


@pytest.mark.mostly_slow(2, "each fault; a part is in make test")
@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
def test_a_failing_add_leaves_nothing(
    node: Node, direct_bin_dir: Path, keys: dict[str, Any], kind: str, fault_at: FaultAt, apart: int
) -> None:
    assert kind in {"netkit", "veth"}
    node.pod_namespace("one")

    assert fails_at_every_step(node, direct_bin_dir, keys, fault_at, apart=apart) >= 8


def test_a_bridges_vlan(node: Node, bin_dir: Path, kind: str) -> None:
    """VLANs and hairpin are settings of the port, whatever its kind."""
    if kind != "netkit":
        lacking("netkit")
    config = {"cniVersion": "1.1.0", "name": "net", "deviceType": "netkit", "ipam": DUAL_STACK, "vlan": 100}
    network = Network(node, bin_dir, config | CONFIGS["bridge"] | {"hairpinMode": True})
    result = network.add("one")

    assert network.ping("one", "10.88.0.1")
    network.succeed("CHECK", "one", prevResult=result)
