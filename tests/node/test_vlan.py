"""The vlan plugin: pods in a VLAN of an interface of their node."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from plugins.attach.host_veth import host_veth_name
from tests.attachments import Network
from tests.cli import REFERENCE_BIN_DIR
from tests.kernel import has_link_kind, lacking
from tests.masters import IPAM, link_of, names, reserved, settings_of
from tests.node.faults import failing_at, fails_at_every_step
from tests.nodes import Neighbours, Node, until_usable, veth_between

MAC = "02:00:00:00:00:09"

BAD_KEYS: list[tuple[dict[str, Any], str]] = [
    ({"master": "uplink9"}, 'master: there is no interface "uplink9"'),
    ({"master": None}, "master: required key is missing"),
    ({"mtu": 1501}, 'mtu: expected at most 1500, the MTU of "uplink0", got 1501'),
    ({"mtu": 67}, "mtu: expected 0 or an MTU of at least 68 bytes, got 67"),
    ({"vlanId": 4095}, "vlanId: expected a VLAN ID from 0 to 4094, got 4095"),
    ({"vlanId": -1}, "vlanId: expected a VLAN ID from 0 to 4094, got -1"),
    ({"linkInContainer": "yes"}, 'linkInContainer: expected true or false, got "yes"'),
]


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "type": "vlan", "master": "uplink0", "vlanId": 7, "ipam": IPAM} | keys


@pytest.fixture
def neighbour(make_node: Callable[[], Node]) -> Node:
    """A machine on the same wire."""
    return make_node()


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


@pytest.fixture
def theirs(node: Node, wire: Neighbours) -> Network:
    """Debian's plugin on the same node."""
    assert wire.ifname == "uplink0"
    if not (REFERENCE_BIN_DIR / "vlan").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return Network(node, REFERENCE_BIN_DIR, config(cniVersion="1.0.0"))


def test_the_pod_reaches_the_neighbour_by_its_vlan(network: Network, wire: Neighbours) -> None:
    network.add("one")
    network.add("two", vlanId=8)

    for address in (wire.ipv4[1], wire.ipv6[1]):
        assert network.ping("one", address), address
    assert not network.ping("two", wire.ipv4[1])
    assert names(network.node) == {"lo", "uplink0"}


def test_the_result_says_what_the_kernel_has(network: Network) -> None:
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


def test_link_in_container(network: Network) -> None:
    network.config["linkInContainer"] = True
    netns = network.node.pod_namespace("one")
    error = network.fail("ADD", "one")
    assert (error["code"], error["msg"]) == (7, 'master: there is no interface "uplink0"')
    network.node.run(["ip", "link", "set", "uplink0", "netns", netns])
    network.node.run(["ip", "link", "set", "uplink0", "up"], netns=netns)

    result = network.succeed("ADD", "one", ifname="net1")

    assert link_of(network, "one", "net1")["link"] == "uplink0"
    network.succeed("CHECK", "one", ifname="net1", prevResult=result)
    network.succeed("DEL", "one", ifname="net1", prevResult=result)
    assert names(network.node, netns) == {"lo", "uplink0"}


def test_the_host_has_an_interface_of_the_same_name(network: Network) -> None:
    network.node.run(["ip", "link", "add", "eth0", "type", "bridge"])

    network.add("one")
    network.succeed("DEL", "one")

    assert "eth0" in names(network.node)
    assert names(network.node, network.namespace("one")) == {"lo"}


def test_del_finds_what_a_killed_add_has_not_renamed(network: Network) -> None:
    netns, name = network.node.pod_namespace("one"), host_veth_name("id-one", "eth0")
    network.node.run(["ip", "link", "add", "link", "uplink0", "name", name, "netns", netns, "type", "vlan", "id", "7"])

    network.succeed("DEL", "one")

    assert names(network.node, netns) == {"lo"}


def test_bad_keys_are_told_and_no_obstacle_to_del(network: Network) -> None:
    network.node.pod_namespace("one")
    before = network.node.state()

    for keys, told in BAD_KEYS:
        error = network.fail("ADD", "one", **keys)

        assert (error["code"], error["msg"]) == (7, told)
        network.node.assert_same_state(before)
        ran = network.run("DEL", "one", **keys)
        assert ran.code == 0, ran


def test_nothing_is_left(network: Network) -> None:
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    network.succeed("ADD", "one")

    for _ in range(2):
        network.succeed("DEL", "one")
        network.node.assert_same_state(before, ignore=["files/*networks*"])
        assert names(network.node, netns) == {"lo"}
    network.succeed("ADD", "one")
    remove_namespace(netns)
    network.succeed("DEL", "one")
    assert reserved(network) == set()


def test_check_tells_damage(network: Network) -> None:
    result = network.add("one")
    network.succeed("CHECK", "one", prevResult=result)
    assert "uplink9" in network.fail("CHECK", "one", master="uplink9", prevResult=result)["msg"]
    for damage, told in (
        ("ip address flush dev eth0 scope global", "address 192.0.2.10/24 is missing"),
        ("ip link set eth0 down", 'interface "eth0" in the container is down'),
        ("ip link delete eth0", '"eth0" is missing'),
    ):
        network.node.run(damage.split(), netns=network.namespace("one"))
        assert told in network.fail("CHECK", "one", prevResult=result)["msg"]


def test_status_and_gc(network: Network) -> None:
    def run(verb: str, **keys: Any) -> tuple[int, object]:
        ran = network.node.plugin(network.bin_dir, "vlan", verb, network.config | keys)
        return ran.code, ran.stdout and ran.stdout["code"]

    assert run("STATUS") == (0, None)
    assert run("STATUS", master="uplink9") == (1, 50)
    assert run("STATUS", master=None) == (1, 7)
    network.add("kept")
    network.add("lost", vlanId=8)
    valid = [{"containerID": "id-kept", "ifname": "eth0"}]
    assert run("GC", **{"cni.dev/valid-attachments": valid}) == (0, None)
    assert reserved(network) == {network.addresses("kept")[0]}


@pytest.mark.parametrize("ours_first", [True, False])
def test_either_suite_checks_and_deletes_the_others_pod(theirs: Network, network: Network, *, ours_first: bool) -> None:
    network.config["cniVersion"] = "1.0.0"
    added, other = (network, theirs) if ours_first else (theirs, network)
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    result = added.succeed("ADD", "one")

    other.succeed("CHECK", "one", prevResult=result)
    other.succeed("DEL", "one", prevResult=result)
    assert names(network.node, netns) == {"lo"}
    assert reserved(network) == set()
    network.node.assert_same_state(before, ignore=["files/*networks*"])


def test_the_result_has_the_shape_of_theirs(theirs: Network, network: Network) -> None:
    network.config["cniVersion"] = "1.0.0"
    other, own = theirs.add("theirs"), network.add("own", vlanId=8)

    assert [each | {"sandbox": ""} for each in other["interfaces"]] == [
        each | {"sandbox": ""} for each in own["interfaces"]
    ]
    assert [ip.keys() for ip in other["ips"]] == [ip.keys() for ip in own["ips"]]
    assert settings_of(theirs, "theirs") | {"id": 8} == settings_of(network, "own")


def test_a_failing_add_leaves_nothing(node: Node, wire: Neighbours, direct_bin_dir: Path) -> None:
    """At every request to the kernel; with the interface's name taken on the host there are more."""
    assert wire.ifname == "uplink0"
    node.run(["ip", "link", "add", "eth0", "type", "bridge"])
    node.pod_namespace("one")

    assert fails_at_every_step(node, direct_bin_dir, config(), failing_at) > 8
