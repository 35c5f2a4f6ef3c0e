"""The macvlan plugin: pods on the network of an interface of their node."""

from pathlib import Path
from typing import Any

import pytest

from tests.attachments import Network
from tests.masters import IPAM, link_of, names, settings_of
from tests.nodes import Neighbours, Node

MAC = "02:00:00:00:00:09"


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "type": "macvlan", "master": "uplink0", "ipam": IPAM} | keys


@pytest.fixture
def network(node: Node, bin_dir: Path, wire: Neighbours) -> Network:
    assert wire.ifname == "uplink0"
    return Network(node, bin_dir, config())


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_pods_reach_each_other_and_the_neighbour(network: Network, wire: Neighbours) -> None:
    network.add("one")
    network.add("two")

    for address in [*network.addresses("two"), wire.ipv4[1], wire.ipv6[1]]:
        assert network.ping("one", address), address
    assert names(network.node) == {"lo", "uplink0"}


def test_result_matches_the_kernel(network: Network) -> None:
    result = network.add("one")

    made = link_of(network, "one")
    netns = network.namespace("one")
    assert result["interfaces"] == [{"name": "eth0", "mac": made["address"], "mtu": 1500, "sandbox": netns}]
    assert [ip["interface"] for ip in result["ips"]] == [0, 0]
    assert [ip["address"].split("/")[0] for ip in result["ips"]] == network.addresses("one")
    assert (made["ifalias"], settings_of(network, "one")["mode"]) == ("net/id-one/eth0", "bridge")
    assert made["link_index"] == network.node.ip("link", "show", "uplink0")[0]["ifindex"]


@pytest.mark.parametrize("mode", ["", "bridge", "private", "vepa", "passthru"])
def test_mode(network: Network, mode: str, wire: Neighbours) -> None:
    result = network.add("one", mode=mode)

    assert settings_of(network, "one")["mode"] == mode or "bridge"
    assert network.ping("one", wire.ipv4[1])
    network.succeed("CHECK", "one", mode=mode, prevResult=result)
    other = "private" if mode == "vepa" else "vepa"
    assert f'the configuration says "{other}"' in network.fail("CHECK", "one", mode=other, prevResult=result)["msg"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_private_pods_do_not_reach_each_other(network: Network) -> None:
    network.config["mode"] = "private"
    network.add("one")
    network.add("two")

    assert not network.ping("one", network.addresses("two")[0])


def test_a_passthru_pod_has_the_masters_mac(network: Network) -> None:
    [master] = network.node.ip("link", "show", "uplink0")

    result = network.add("one", mode="passthru")

    assert result["interfaces"][0]["mac"] == link_of(network, "one")["address"] == master["address"]


@pytest.mark.parametrize("option", ["-4", "-6"])
def test_default_master_is_the_interface_of_the_default_route(network: Network, option: str) -> None:
    del network.config["master"]
    node = network.node
    # Preferred less, and of another family or metric.
    node.run(["ip", "link", "add", "other", "type", "bridge"])
    node.run(["ip", "link", "set", "other", "up"])
    node.run(["ip", "address", "add", "203.0.113.1/24", "dev", "other"])
    if option == "-4":
        node.run(["ip", "route", "add", "default", "via", "203.0.113.9", "dev", "other", "metric", "500"])
    gateway = {"-4": "192.0.2.2", "-6": "2001:db8::2"}[option]
    node.run(["ip", option, "route", "add", "default", "via", gateway, "metric", "100"])

    network.add("one")

    assert link_of(network, "one")["link_index"] == node.ip("link", "show", "uplink0")[0]["ifindex"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("mtu", [0, 1400, 1500])
def test_mtu(network: Network, mtu: int) -> None:
    result = network.add("one", mtu=mtu)

    assert link_of(network, "one")["mtu"] == result["interfaces"][0]["mtu"] == (mtu or 1500)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(
    "keys",
    [
        {"mac": MAC},
        {"mac": "02:00:00:00:00:01", "args": f"IgnoreUnknown=1;MAC={MAC}"},
        {"mac": "02:00:00:00:00:01", "args": "MAC=02:00:00:00:00:02", "runtimeConfig": {"mac": MAC}},
    ],
)
def test_mac(network: Network, keys: dict[str, Any]) -> None:
    result = network.add("one", **keys)

    assert link_of(network, "one")["address"] == result["interfaces"][0]["mac"] == MAC


def test_bcqueuelen(network: Network) -> None:
    network.add("one", bcqueuelen=77)

    assert settings_of(network, "one")["bcqueuelen"] == 77


@pytest.mark.parametrize("keys", [{"ipam": {}}, {"ipam": None}])
def test_layer_2_only(network: Network, wire: Neighbours, keys: dict[str, Any]) -> None:
    result = network.add("one", **keys)

    assert [result.get("ips", []), result["interfaces"][0]["name"]] == [[], "eth0"]
    assert "UP" in link_of(network, "one")["flags"]
    network.node.run(["ip", "address", "add", "192.0.2.9/24", "dev", "eth0"], netns=network.namespace("one"))
    assert network.ping("one", wire.ipv4[1])
    network.succeed("CHECK", "one", prevResult=result, **keys)
    network.succeed("DEL", "one", **keys)


def test_add_of_a_duplicate_address_fails(network: Network, neighbour: Node) -> None:
    """By IPv6 duplicate address detection, as with the reference plugin."""
    network.node.pod_namespace("one")
    before = network.node.state()
    neighbour.run(["ip", "address", "add", "2001:db8::10/64", "dev", "uplink0", "nodad"])

    assert "2001:db8::10" in network.fail("ADD", "one")["msg"]
    network.node.assert_same_state(before, ignore=["files/*networks*"])


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_a_reused_address_works_at_once(network: Network, neighbour: Node, wire: Neighbours) -> None:
    network.add("one")
    address = network.addresses("one")[0]
    assert neighbour.run(["ping", "-c1", "-W2", address]).returncode == 0
    network.succeed("DEL", "one")
    for file in (network.node.var_lib_cni / "networks/net").glob("last_reserved_ip*"):
        file.unlink()

    network.add("two")

    assert network.addresses("two")[0] == address
    known = {
        each["dst"]: each["lladdr"] for each in neighbour.ip("neigh", "show", "dev", wire.ifname) if "lladdr" in each
    }
    assert known[address] == link_of(network, "two")["address"]


def test_del_with_the_namespace_of_another_pod_keeps_that_pod(network: Network, wire: Neighbours) -> None:
    network.add("one")
    network.add("two")

    network.succeed("DEL", "one", netns=network.namespace("two"))

    assert network.ping("two", wire.ipv4[1])


def test_del_leaves_an_interface_of_another_kind(network: Network) -> None:
    netns = network.node.pod_namespace("one")
    network.node.run(["ip", "link", "add", "eth0", "type", "bridge"], netns=netns)

    assert "exists already" in network.fail("ADD", "one")["msg"]
    network.succeed("DEL", "one")

    assert names(network.node, netns) == {"lo", "eth0"}


def test_a_second_add_fails_and_changes_nothing(network: Network, wire: Neighbours) -> None:
    network.add("one", mac=MAC)

    assert "exists already" in network.fail("ADD", "one", mac=MAC)["msg"]
    assert network.ping("one", wire.ipv4[1])


def test_a_failing_add_leaves_nothing(network: Network) -> None:
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    ipam = IPAM | {"routes": [{"dst": "203.0.113.0/24", "gw": "198.51.100.1"}]}

    assert "203.0.113.0/24" in network.fail("ADD", "one", ipam=ipam)["msg"]
    network.node.assert_same_state(before, ignore=["files/*networks*"])
    assert names(network.node, netns) == {"lo"}


def test_check_tells_another_mac(network: Network) -> None:
    result = network.add("one")
    network.succeed("CHECK", "one", prevResult=result)
    network.node.run(["ip", "link", "set", "eth0", "address", "02:00:00:00:00:01"], netns=network.namespace("one"))

    assert "MAC of" in network.fail("CHECK", "one", prevResult=result)["msg"]


@pytest.mark.parametrize("keys", [{"mode": "source"}, {"master": "a/b"}])
def test_add_refuses_bad_values_and_del_ignores_them(network: Network, keys: dict[str, Any]) -> None:
    network.node.pod_namespace("one")

    error = network.fail("ADD", "one", **keys)

    assert (error["code"], error["msg"].split(":")[0]) == (7, next(iter(keys)))
    network.add("two")
    ran = network.run("DEL", "two", **keys)
    assert ran.code == 0, ran
    assert names(network.node, network.namespace("two")) == {"lo"}
