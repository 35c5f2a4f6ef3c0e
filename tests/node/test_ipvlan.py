"""The ipvlan plugin: pods with addresses of their own behind the MAC of an interface of their node."""

from pathlib import Path
from typing import Any

import pytest

from tests.attachments import Network
from tests.kernel import has_link_kind, lacking
from tests.masters import IPAM, link_of, names, settings_of
from tests.node.faults import failing_at, fails_at_every_step
from tests.nodes import Neighbours, Node, until, veth_between


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "type": "ipvlan", "master": "uplink0", "ipam": IPAM} | keys


@pytest.fixture
def wire(node: Node, neighbour: Node) -> Neighbours:
    if not has_link_kind(node, "ipvlan"):
        lacking("ipvlan (CONFIG_IPVLAN)")
    return veth_between(node, neighbour)


@pytest.fixture
def network(node: Node, bin_dir: Path, wire: Neighbours) -> Network:
    assert wire.ifname == "uplink0"
    return Network(node, bin_dir, config())


def test_pods_reach_each_other_and_the_neighbour(network: Network, wire: Neighbours) -> None:
    network.add("one")
    network.add("two")

    for address in [*network.addresses("two"), wire.ipv4[1], wire.ipv6[1]]:
        assert network.ping("one", address), address
    assert names(network.node) == {"lo", "uplink0"}


def test_result_matches_the_kernel(network: Network) -> None:
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


def test_a_failing_add_leaves_nothing(node: Node, wire: Neighbours, direct_bin_dir: Path, apart: int) -> None:
    """At every request to the kernel; with the interface's name taken on the host there are more."""
    assert wire.ifname == "uplink0"
    node.run(["ip", "link", "add", "eth0", "type", "bridge"])
    node.pod_namespace("one")

    assert fails_at_every_step(node, direct_bin_dir, config(), failing_at, apart=apart) >= 8
