"""The vlan plugin: pods in a VLAN of an interface of their node."""

from pathlib import Path
from typing import Any

import pytest

from tests.attachments import Network
from tests.kernel import has_link_kind, lacking
from tests.masters import IPAM, link_of, names, settings_of
from tests.node.faults import failing_at, fails_at_every_step
from tests.nodes import Neighbours, Node, until_usable, veth_between

MAC = "02:00:00:00:00:09"


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "type": "vlan", "master": "uplink0", "vlanId": 7, "ipam": IPAM} | keys


@pytest.fixture
def wire(node: Node, neighbour: Node) -> Neighbours:
    if not has_link_kind(node, "vlan", "id", "7"):
        lacking("VLAN interfaces (CONFIG_VLAN_8021Q)")
    wire = veth_between(node, neighbour)
    # The neighbour's addresses are in the VLAN alone.
    neighbour.run(["ip", "address", "flush", "dev", "uplink0", "scope", "global"])
    neighbour.run(["ip", "link", "add", "link", "uplink0", "name", "tagged", "up", "type", "vlan", "id", "7"])
    neighbour.run(["ip", "address", "add", f"{wire.ipv4[1]}/24", "dev", "tagged"])
    neighbour.run(["ip", "address", "add", f"{wire.ipv6[1]}/64", "dev", "tagged", "nodad"])
    until_usable(neighbour, "tagged")
    return wire


@pytest.fixture
def network(node: Node, bin_dir: Path, wire: Neighbours) -> Network:
    assert wire.ifname == "uplink0"
    return Network(node, bin_dir, config())


def test_the_pod_reaches_the_neighbour_by_its_vlan(network: Network, wire: Neighbours) -> None:
    network.add("one")
    network.add("two", vlanId=8)

    for address in (wire.ipv4[1], wire.ipv6[1]):
        assert network.ping("one", address), address
    assert not network.ping("two", wire.ipv4[1])
    assert names(network.node) == {"lo", "uplink0"}


def test_result_matches_the_kernel(network: Network) -> None:
    [master] = network.node.ip("link", "show", "uplink0")

    result = network.add("one")

    made, netns = link_of(network, "one"), network.namespace("one")
    mac = master["address"]
    assert result["interfaces"] == [{"name": "eth0", "mac": mac, "mtu": 1500, "sandbox": netns}]
    assert [ip["interface"] for ip in result["ips"]] == [0, 0]
    assert [ip["address"].split("/")[0] for ip in result["ips"]] == network.addresses("one")
    assert (made["address"], made["ifalias"], made["link_index"]) == (mac, "net/id-one/eth0", master["ifindex"])
    assert settings_of(network, "one") == {"protocol": "802.1Q", "id": 7, "flags": ["REORDER_HDR"]}


@pytest.mark.parametrize("vlan_id", [0, 4094])
def test_the_lowest_and_the_highest_id(network: Network, vlan_id: int) -> None:
    result = network.add("one", vlanId=vlan_id)

    assert settings_of(network, "one")["id"] == vlan_id
    network.succeed("CHECK", "one", vlanId=vlan_id, prevResult=result)
    told = network.fail("CHECK", "one", vlanId=7, prevResult=result)["msg"]
    assert told == f'vlanId of "eth0" is {vlan_id}, the configuration says 7'


def test_mtu_and_mac(network: Network) -> None:
    keys = {"mtu": 1400, "runtimeConfig": {"mac": MAC}}

    result = network.add("one", **keys)

    made = link_of(network, "one")
    assert (made["mtu"], made["address"], result["interfaces"][0]["mac"]) == (1400, MAC, MAC)
    network.succeed("CHECK", "one", prevResult=result, **keys)
    told = network.fail("CHECK", "one", prevResult=result, mtu=1300)["msg"]
    assert told == 'mtu of "eth0" is 1400, the configuration says 1300'


def test_a_vlan_has_one_pod_on_a_master(network: Network, wire: Neighbours) -> None:
    network.add("one")
    netns = network.node.pod_namespace("two")

    told = network.fail("ADD", "two")["msg"]

    assert told == 'vlanId: "uplink0" has an interface for VLAN 7 already, perhaps another pod\'s'
    assert names(network.node, netns) == {"lo"}
    assert network.ping("one", wire.ipv4[1])
    assert "exists already" in network.fail("ADD", "one")["msg"]
    network.succeed("DEL", "one")
    network.succeed("ADD", "two")


def test_layer_2_only(network: Network) -> None:
    """Which the reference refuses."""
    result = network.add("one", ipam={})

    assert ("UP" in link_of(network, "one")["flags"], result.get("ips", [])) == (True, [])
    network.succeed("CHECK", "one", prevResult=result, ipam={})


def test_a_failing_add_leaves_nothing(node: Node, wire: Neighbours, direct_bin_dir: Path, apart: int) -> None:
    """At every request to the kernel; with the interface's name taken on the host there are more."""
    assert wire.ifname == "uplink0"
    node.run(["ip", "link", "add", "eth0", "type", "bridge"])
    node.pod_namespace("one")

    assert fails_at_every_step(node, direct_bin_dir, config(), failing_at, apart=apart) >= 8
