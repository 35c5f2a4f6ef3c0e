"""`vlan`, `vlanTrunk` and `preserveDefaultVlan` of the bridge plugin, on a kernel whose bridges know VLANs."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.attachments import SHARED_BY_PODS, Network
from tests.nodes import HANG, Node

Vlans = dict[int, list[str]]
NATIVE = ["PVID", "Egress Untagged"]
"""Flags of the VLAN that frames without a tag belong to."""
UNTAGGED = ["Egress Untagged"]
TAGGED: list[str] = []

FIRST = {"vlan": 100, "name": "first", "ipam": {"type": "host-local", "subnet": "10.100.0.0/24"}}
SECOND = {"vlan": 200, "name": "second", "ipam": {"type": "host-local", "subnet": "10.200.0.0/24"}}


def vlans_of(node: Node, ifname: str) -> Vlans:
    """What `bridge -j vlan` shows of a port, ranges written out."""
    (shown,) = json.loads(node.run(["bridge", "-j", "vlan", "show", "dev", ifname]).stdout)
    return {
        vid: each.get("flags", [])
        for each in shown["vlans"]
        for vid in range(each["vlan"], each.get("vlanEnd", each["vlan"]) + 1)
    }


def add(network: Network, pod: str) -> tuple[dict[str, Any], Vlans]:
    """Add a pod; return the result and the VLANs of its port."""
    result = network.add(pod)
    return result, vlans_of(network.node, result["interfaces"][1]["name"])


def ports(node: Node) -> list[str]:
    return [link["ifname"] for link in node.ip("link", "show", "master", "br0")]


def global_addresses(node: Node, ifname: str) -> list[str]:
    (link,) = node.ip("addr", "show", "dev", ifname)
    return [each["local"] for each in link["addr_info"] if each["scope"] == "global"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"vlan": 100}, {100: NATIVE}),
        ({"vlan": 4094}, {4094: NATIVE}),
        ({"vlan": 100, "preserveDefaultVlan": True}, {1: UNTAGGED, 100: NATIVE}),
        ({"vlanTrunk": [{"id": 101}]}, {1: NATIVE, 101: TAGGED}),
        (
            {"vlanTrunk": [{"minID": 200, "maxID": 202}, {"id": 101}]},
            dict.fromkeys((101, 200, 201, 202), TAGGED) | {1: NATIVE},
        ),
        ({"vlanTrunk": [{"minID": 1, "maxID": 3}]}, {1: NATIVE, 2: TAGGED, 3: TAGGED}),
        ({"vlanTrunk": [{"minID": 1, "maxID": 4094}]}, dict.fromkeys(range(2, 4095), TAGGED) | {1: NATIVE}),
        ({"vlan": 100, "vlanTrunk": [{"id": 101}]}, {100: NATIVE, 101: TAGGED}),
        ({"vlan": 100, "vlanTrunk": [{"minID": 99, "maxID": 101}]}, {99: TAGGED, 100: NATIVE, 101: TAGGED}),
        (
            {"vlan": 100, "vlanTrunk": [{"id": 101}], "preserveDefaultVlan": True},
            {1: UNTAGGED, 100: NATIVE, 101: TAGGED},
        ),
    ],
)
def test_a_port_is_in_the_vlans_of_the_configuration(
    make_network: Callable[..., Network], keys: dict[str, Any], expected: Vlans
) -> None:
    network = make_network(isGateway=False, **keys)
    result, vlans = add(network, "one")

    assert vlans == expected
    network.succeed("CHECK", "one", prevResult=result)


def test_pods_reach_only_pods_of_their_vlan(make_network: Callable[..., Network]) -> None:
    network = make_network(isGateway=False)
    for pod, vlan in (("one", 100), ("two", 100), ("other", 200)):
        network.add(pod, vlan=vlan)

    for neighbour in network.addresses("two"):
        assert network.ping("one", neighbour)
    for stranger in network.addresses("other"):
        assert not network.ping("one", stranger)


def test_each_vlan_has_a_gateway_of_its_own(vlan_node: Node, make_network: Callable[..., Network]) -> None:
    first, second = make_network(**FIRST), make_network(**SECOND)
    results = [first.add("one"), second.add("two")]

    # The bridge itself is in none of them: each gateway is the inner end of a port.
    assert [result["interfaces"][3]["name"] for result in results] == ["br0.100", "br0.200"]
    assert global_addresses(vlan_node, "br0") == []
    assert global_addresses(vlan_node, "br0.100") == ["10.100.0.1"]
    assert global_addresses(vlan_node, "br0.200") == ["10.200.0.1"]
    assert first.ping("one", "10.100.0.1")
    assert second.ping("two", "10.200.0.1")
    assert first.ping(None, first.addresses("one")[0])
    gateway_ports = {link["ifname"] for link in vlan_node.ip("link", "show", "master", "br0")} - {
        result["interfaces"][1]["name"] for result in results
    }
    assert sorted(sorted(vlans_of(vlan_node, port)) for port in gateway_ports) == [[100], [200]]


def test_the_node_routes_between_vlans(make_network: Callable[..., Network]) -> None:
    first, second = make_network(isDefaultGateway=True, **FIRST), make_network(isDefaultGateway=True, **SECOND)
    first.add("one")
    second.add("two")

    assert first.ping("one", second.addresses("two")[0])


def test_the_gateway_answers_in_both_families_and_masquerading_does_no_harm(
    make_network: Callable[..., Network],
) -> None:
    network = make_network(vlan=100, ipMasq=True)
    result = network.add("one")

    assert global_addresses(network.node, "br0.100") == ["10.88.0.1", "fd00:88::1"]
    assert network.ping("one", "10.88.0.1")
    assert network.ping("one", "fd00:88::1")
    network.succeed("CHECK", "one", prevResult=result)


def test_a_trunk_carries_the_tagged_frames_of_its_vlans_alone(make_network: Callable[..., Network]) -> None:
    network = make_network(isGateway=False, ipam={"type": "host-local", "subnet": "10.88.0.0/24"})
    network.add("one", vlan=100)
    network.add("other", vlan=200)
    network.add("trunk", ipam={}, vlanTrunk=[{"minID": 100, "maxID": 110}])
    netns = network.namespace("trunk")
    for vlan, address in ((100, "10.88.0.100/24"), (200, "10.88.0.200/24")):
        tagged = f"eth0.{vlan}"
        network.node.run(["ip", "link", "add", tagged, "link", "eth0", "type", "vlan", "id", str(vlan)], netns=netns)
        network.node.run(["ip", "address", "add", address, "dev", tagged, "noprefixroute"], netns=netns)
        network.node.run(["ip", "link", "set", tagged, "up"], netns=netns)

    def ping(pod: str, ifname: str) -> bool:
        (address,) = network.addresses(pod)
        network.node.run(["ip", "route", "replace", f"{address}/32", "dev", ifname], netns=netns)
        return network.ping("trunk", address)

    assert ping("one", "eth0.100")
    assert not ping("other", "eth0.200")


def test_del_leaves_nothing(vlan_node: Node, make_network: Callable[..., Network]) -> None:
    network = make_network(vlan=100, vlanTrunk=[{"id": 101}], ipMasq=True)
    network.add("stays")
    vlan_node.pod_namespace("one")
    before = vlan_node.state()
    result = network.succeed("ADD", "one")

    network.succeed("DEL", "one", prevResult=result)
    vlan_node.assert_same_state(before, ignore=SHARED_BY_PODS, within=HANG)
    assert network.ping("stays", "10.88.0.1")
    network.succeed("DEL", "one", prevResult=result)


def test_gc_takes_the_pods_and_leaves_the_gateway(vlan_node: Node, make_network: Callable[..., Network]) -> None:
    network = make_network(vlan=100)
    network.add("stays")
    before = vlan_node.state()
    network.add("lost")
    valid = [{"containerID": "id-stays", "ifname": "eth0"}]

    ran = vlan_node.plugin(network.bin_dir, "bridge", "GC", {**network.config, "cni.dev/valid-attachments": valid})
    assert (ran.code, ran.stderr) == (0, "")
    vlan_node.assert_same_state(before, ignore=[*SHARED_BY_PODS, "*lost*"], within=HANG)
    assert network.ping("stays", "10.88.0.1")


def test_a_gateway_with_another_address_is_refused(vlan_node: Node, make_network: Callable[..., Network]) -> None:
    network = make_network(**FIRST)
    network.add("one")
    vlan_node.pod_namespace("two")
    before = vlan_node.state()

    moved = {"type": "host-local", "subnet": "10.99.0.0/24", "dataDir": "/var/lib/cni/other"}
    error = network.fail("ADD", "two", ipam=moved)
    assert error["msg"].startswith('"br0.100" already has an IP address different from 10.99.0.1/24')
    vlan_node.assert_same_state(before, ignore=["files/*"], within=HANG)


def test_an_add_that_fails_takes_back_the_gateway_that_it_made(
    vlan_node: Node, make_network: Callable[..., Network]
) -> None:
    network = make_network(vlan=100)
    vlan_node.pod_namespace("one")
    # Of the gateway's two addresses the second is refused: that is as late as an ADD can fail.
    vlan_node.run(["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"])
    before = vlan_node.state()

    error = network.fail("ADD", "one")
    assert "fd00:88::1" in error["msg"]
    vlan_node.assert_same_state(before, ignore=["node/sysctl/*", "files/*"], within=HANG)


def test_a_bridge_that_does_not_heed_vlans_is_refused(vlan_node: Node, make_network: Callable[..., Network]) -> None:
    vlan_node.run(["ip", "link", "add", "br0", "up", "type", "bridge"])
    vlan_node.pod_namespace("one")
    network = make_network(vlan=100)

    error = network.fail("ADD", "one")
    assert (error["code"], "VLAN filtering off" in error["msg"]) == (7, True)
    assert ports(vlan_node) == []


def test_many_pods_at_once_share_one_gateway(vlan_node: Node, make_network: Callable[..., Network]) -> None:
    network = make_network(vlan=100)
    pods = ["one", "two", "three", "four"]
    for pod in pods:
        vlan_node.pod_namespace(pod)
    with ThreadPoolExecutor(len(pods)) as threads:
        results = list(threads.map(lambda pod: network.succeed("ADD", pod), pods))

    assert len(ports(vlan_node)) == len(pods) + 1
    assert len({result["interfaces"][3]["mac"] for result in results}) == 1
    for pod in pods:
        assert network.ping(pod, "10.88.0.1")


def test_both_suites_on_one_bridge(
    vlan_node: Node, make_network: Callable[..., Network], make_reference: Callable[..., Network]
) -> None:
    """Debian's release of the reference knows `vlan` only, and always keeps the default VLAN."""
    keys = {"vlan": 100, "ipam": {"type": "host-local", "subnet": "10.88.0.0/24"}}
    ours, theirs = make_network(preserveDefaultVlan=True, **keys), make_reference(**keys)
    result, vlans = add(theirs, "theirs")
    own_result, own_vlans = add(ours, "ours")

    assert own_vlans == vlans
    assert [each["name"] for each in own_result["interfaces"]][::3] == ["br0", "br0.100"]
    assert [each["name"] for each in result["interfaces"]][::3] == ["br0", "br0.100"]
    assert ours.ping("ours", theirs.addresses("theirs")[0])
    assert ours.ping("ours", "10.88.0.1")
    assert theirs.ping("theirs", "10.88.0.1")


def test_each_suite_checks_and_deletes_pods_of_the_other(
    vlan_node: Node, make_network: Callable[..., Network], make_reference: Callable[..., Network]
) -> None:
    keys = {"vlan": 100, "ipMasq": True, "ipam": {"type": "host-local", "subnet": "10.88.0.0/24"}}
    # Debian's release masquerades by iptables, and does not find other masquerading.
    ours = make_network(cniVersion="1.0.0", ipMasqBackend="iptables", **keys)
    theirs = make_reference(**keys)
    added, own_added = theirs.add("theirs"), ours.add("ours")

    ours.succeed("CHECK", "theirs", prevResult=added)
    theirs.succeed("CHECK", "ours", prevResult=own_added)
    ours.succeed("DEL", "theirs", prevResult=added)
    theirs.succeed("DEL", "ours", prevResult=own_added)
    # The gateway is left, as with either suite.
    assert len(ports(vlan_node)) == 1
