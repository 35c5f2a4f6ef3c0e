"""The ipvlan plugin: pods with addresses of their own behind the MAC of an interface of their node."""

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
from tests.nodes import Neighbours, Node, until, veth_between

BAD_KEYS: list[tuple[dict[str, Any], str]] = [
    ({"master": "uplink9"}, 'master: there is no interface "uplink9"'),
    ({"master": None}, "master: it is not set, and there is no default route to take it from"),
    ({"mtu": 1501}, 'mtu: expected at most 1500, the MTU of "uplink0", got 1501'),
    ({"mtu": 67}, "mtu: expected 0 or an MTU of at least 68 bytes, got 67"),
    ({"mode": "l4"}, 'mode: expected "l2" or "l3" or "l3s", got "l4"'),
    ({"linkInContainer": "yes"}, 'linkInContainer: expected true or false, got "yes"'),
]


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "type": "ipvlan", "master": "uplink0", "ipam": IPAM} | keys


@pytest.fixture
def neighbour(make_node: Callable[[], Node]) -> Node:
    """A machine on the same wire."""
    return make_node()


@pytest.fixture
def wire(node: Node, neighbour: Node) -> Neighbours:
    if not has_link_kind(node, "ipvlan"):
        lacking("ipvlan (CONFIG_IPVLAN)")
    return veth_between(node, neighbour)


@pytest.fixture
def network(node: Node, bin_dir: Path, wire: Neighbours) -> Network:
    assert wire.ifname == "uplink0"
    return Network(node, bin_dir, config())


@pytest.fixture
def theirs(node: Node, wire: Neighbours) -> Network:
    """Debian's plugin on the same node."""
    assert wire.ifname == "uplink0"
    if not (REFERENCE_BIN_DIR / "ipvlan").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return Network(node, REFERENCE_BIN_DIR, config(cniVersion="1.0.0"))


def test_pods_reach_each_other_and_the_neighbour(network: Network, wire: Neighbours) -> None:
    network.add("one")
    network.add("two")

    for address in [*network.addresses("two"), wire.ipv4[1], wire.ipv6[1]]:
        assert network.ping("one", address), address
    assert names(network.node) == {"lo", "uplink0"}


def test_the_result_says_what_the_kernel_has(network: Network) -> None:
    [master] = network.node.ip("link", "show", "uplink0")

    result = network.add("one")

    made, netns = link_of(network, "one"), network.namespace("one")
    mac = master["address"]
    assert result["interfaces"] == [{"name": "eth0", "mac": mac, "mtu": 1500, "sandbox": netns}]
    assert [ip["interface"] for ip in result["ips"]] == [0, 0]
    assert [ip["address"].split("/")[0] for ip in result["ips"]] == network.addresses("one")
    assert (made["address"], made["ifalias"]) == (mac, "net/id-one/eth0")
    assert (made["link_index"], settings_of(network, "one")["mode"]) == (master["ifindex"], "l2")


@pytest.mark.parametrize("mode", ["l3", "l3s"])
def test_mode(network: Network, mode: str) -> None:
    network.config["mode"] = mode
    result = network.add("one")
    network.add("two")

    assert settings_of(network, "one")["mode"] == mode
    assert network.ping("one", network.addresses("two")[0])
    network.succeed("CHECK", "one", prevResult=result)
    told = network.fail("CHECK", "one", mode="l2", prevResult=result)["msg"]
    assert told == f'mode of "eth0" is "{mode}", the configuration says "l2"'


def test_the_address_is_announced(network: Network, neighbour: Node) -> None:
    """The kernel takes no MAC for an ipvlan, which announces those of other kinds."""
    stale = ["lladdr", "02:00:00:00:00:01", "nud", "stale", "dev", "uplink0"]
    neighbour.run(["ip", "neigh", "replace", "192.0.2.10", *stale])

    network.add("one")

    def known() -> dict[str, str]:
        return {each["dst"]: each.get("lladdr", "") for each in neighbour.ip("neigh", "show", "dev", "uplink0")}

    assert network.addresses("one")[0] == "192.0.2.10"
    until(lambda: known()["192.0.2.10"] == link_of(network, "one")["address"])


def test_in_a_chain_it_takes_interface_and_addresses_of_the_plugin_before(network: Network, wire: Neighbours) -> None:
    del network.config["master"], network.config["ipam"]
    earlier = {
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "uplink0"}],
        "ips": [{"address": "192.0.2.77/24", "interface": 0}, {"address": "2001:db8::77/64"}],
        "routes": [{"dst": "203.0.113.0/24", "gw": "192.0.2.2"}],
        "dns": {"nameservers": ["192.0.2.2"]},
    }

    result = network.add("one", prevResult=earlier)

    assert [interface["name"] for interface in result["interfaces"]] == ["eth0"]
    assert [ip["interface"] for ip in result["ips"]] == [0, 0]
    assert network.addresses("one") == ["192.0.2.77", "2001:db8::77"]
    assert (result["routes"], result["dns"]) == (earlier["routes"], earlier["dns"])
    assert network.ping("one", wire.ipv4[1])
    network.succeed("CHECK", "one", prevResult=result)
    network.succeed("DEL", "one", prevResult=result)
    earlier["interfaces"] = [{"name": "uplink0"}, {"name": "uplink1"}]
    error = network.fail("ADD", "one", prevResult=earlier)
    assert (error["code"], 'got "uplink0", "uplink1"' in error["msg"]) == (7, True)


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
    network.node.run(["ip", "link", "add", "link", "uplink0", "name", name, "netns", netns, "type", "ipvlan"])

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
        ran = network.node.plugin(network.bin_dir, "ipvlan", verb, network.config | keys)
        return ran.code, ran.stdout and ran.stdout["code"]

    assert run("STATUS") == (0, None)
    assert run("STATUS", master="uplink9") == (1, 50)
    assert run("STATUS", master=None) == (0, None)
    network.add("kept")
    network.add("lost")
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
    other, own = theirs.add("theirs"), network.add("own")

    assert [each | {"sandbox": ""} for each in other["interfaces"]] == [
        each | {"sandbox": ""} for each in own["interfaces"]
    ]
    assert [ip.keys() for ip in other["ips"]] == [ip.keys() for ip in own["ips"]]
    assert settings_of(theirs, "theirs") == settings_of(network, "own")


def test_a_failing_add_leaves_nothing(node: Node, wire: Neighbours, direct_bin_dir: Path) -> None:
    """At every request to the kernel; with the interface's name taken on the host there are more."""
    assert wire.ifname == "uplink0"
    node.run(["ip", "link", "add", "eth0", "type", "bridge"])
    node.pod_namespace("one")

    assert fails_at_every_step(node, direct_bin_dir, config(), failing_at) > 8
