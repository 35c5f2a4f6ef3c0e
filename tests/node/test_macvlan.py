"""The macvlan plugin: pods on the network of an interface of their node."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netlink.namespace import remove_namespace
from tests.attachments import Network
from tests.cli import REFERENCE_BIN_DIR
from tests.nodes import Neighbours, Node, until, veth_between

IPAM = {
    "type": "host-local",
    "ranges": [
        [{"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.10"}],
        [{"subnet": "2001:db8::/64", "rangeStart": "2001:db8::10"}],
    ],
}
MAC = "02:00:00:00:00:09"


def config(**keys: Any) -> dict[str, Any]:
    return {"cniVersion": "1.1.0", "name": "net", "type": "macvlan", "master": "uplink0", "ipam": IPAM} | keys


@pytest.fixture
def neighbour(make_node: Callable[[], Node]) -> Node:
    """A machine on the same wire."""
    return make_node()


@pytest.fixture
def wire(node: Node, neighbour: Node) -> Neighbours:
    return veth_between(node, neighbour)


@pytest.fixture
def network(node: Node, bin_dir: Path, wire: Neighbours) -> Network:
    assert wire.ifname == "uplink0"
    return Network(node, bin_dir, config())


def link(network: Network, pod: str, ifname: str = "eth0") -> dict[str, Any]:
    found: dict[str, Any]
    [found] = network.node.ip("-d", "link", "show", "dev", ifname, netns=network.namespace(pod))
    return found


def settings(network: Network, pod: str, ifname: str = "eth0") -> dict[str, Any]:
    found = link(network, pod, ifname)["linkinfo"]
    assert found["info_kind"] == "macvlan"
    return dict(found["info_data"])


def names(node: Node, netns: str | None = None) -> set[str]:
    return {each["ifname"] for each in node.ip("link", netns=netns)}


def test_pods_reach_each_other_and_the_neighbour(network: Network, wire: Neighbours) -> None:
    network.add("one")
    network.add("two")

    for address in [*network.addresses("two"), wire.ipv4[1], wire.ipv6[1]]:
        assert network.ping("one", address), address
    assert names(network.node) == {"lo", "uplink0"}


def test_the_result_says_what_the_kernel_has(network: Network) -> None:
    result = network.add("one")

    made = link(network, "one")
    netns = network.namespace("one")
    assert result["interfaces"] == [{"name": "eth0", "mac": made["address"], "mtu": 1500, "sandbox": netns}]
    assert [ip["interface"] for ip in result["ips"]] == [0, 0]
    assert [ip["address"].split("/")[0] for ip in result["ips"]] == network.addresses("one")
    assert (made["ifalias"], settings(network, "one")["mode"]) == ("net/id-one/eth0", "bridge")
    assert made["link_index"] == network.node.ip("link", "show", "uplink0")[0]["ifindex"]


def test_the_host_has_an_interface_of_the_same_name(network: Network) -> None:
    network.node.run(["ip", "link", "add", "eth0", "type", "bridge"])

    network.add("one")
    network.succeed("DEL", "one")

    assert "eth0" in names(network.node)
    assert names(network.node, network.namespace("one")) == {"lo"}


@pytest.mark.parametrize("mode", ["", "bridge", "private", "vepa", "passthru"])
def test_mode(network: Network, mode: str, wire: Neighbours) -> None:
    result = network.add("one", mode=mode)

    assert settings(network, "one")["mode"] == mode or "bridge"
    assert network.ping("one", wire.ipv4[1])
    network.succeed("CHECK", "one", mode=mode, prevResult=result)
    other = "private" if mode == "vepa" else "vepa"
    assert f'the configuration says "{other}"' in network.fail("CHECK", "one", mode=other, prevResult=result)["msg"]


def test_private_pods_do_not_reach_each_other(network: Network) -> None:
    network.config["mode"] = "private"
    network.add("one")
    network.add("two")

    assert not network.ping("one", network.addresses("two")[0])


def test_a_passthru_pod_has_the_masters_mac(network: Network) -> None:
    [master] = network.node.ip("link", "show", "uplink0")

    result = network.add("one", mode="passthru")

    assert result["interfaces"][0]["mac"] == link(network, "one")["address"] == master["address"]


@pytest.mark.parametrize("option", ["-4", "-6"])
def test_without_a_master_it_is_the_interface_of_the_default_route(network: Network, option: str) -> None:
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

    assert link(network, "one")["link_index"] == node.ip("link", "show", "uplink0")[0]["ifindex"]


def test_without_a_master_and_a_default_route(network: Network) -> None:
    network.node.pod_namespace("one")

    error = network.fail("ADD", "one", master="")

    assert (error["code"], "no default route" in error["msg"]) == (7, True)
    network.succeed("DEL", "one", master="")


def test_a_missing_master(network: Network) -> None:
    network.node.pod_namespace("one")
    before = network.node.state()

    error = network.fail("ADD", "one", master="uplink9")

    assert (error["code"], error["msg"]) == (7, 'master: there is no interface "uplink9"')
    network.node.assert_same_state(before)


def test_link_in_container(network: Network) -> None:
    network.config["linkInContainer"] = True
    netns = network.node.pod_namespace("one")
    error = network.fail("ADD", "one")
    assert (error["code"], error["msg"]) == (7, 'master: there is no interface "uplink0"')
    network.node.run(["ip", "link", "set", "uplink0", "netns", netns])
    network.node.run(["ip", "link", "set", "uplink0", "up"], netns=netns)

    result = network.succeed("ADD", "one", ifname="net1")

    assert settings(network, "one", "net1")["mode"] == "bridge"
    assert link(network, "one", "net1")["link"] == "uplink0"
    network.succeed("CHECK", "one", ifname="net1", prevResult=result)
    network.succeed("DEL", "one", ifname="net1", prevResult=result)
    assert names(network.node, netns) == {"lo", "uplink0"}


@pytest.mark.parametrize("mtu", [0, 1400, 1500])
def test_mtu(network: Network, mtu: int) -> None:
    result = network.add("one", mtu=mtu)

    assert link(network, "one")["mtu"] == result["interfaces"][0]["mtu"] == (mtu or 1500)


def test_an_mtu_above_the_masters(network: Network) -> None:
    network.node.pod_namespace("one")

    error = network.fail("ADD", "one", mtu=1501)

    assert (error["code"], error["msg"]) == (7, 'mtu: expected at most 1500, the MTU of "uplink0", got 1501')
    assert names(network.node, network.namespace("one")) == {"lo"}


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

    assert link(network, "one")["address"] == result["interfaces"][0]["mac"] == MAC


def test_bcqueuelen(network: Network) -> None:
    network.add("one", bcqueuelen=77)

    assert settings(network, "one")["bcqueuelen"] == 77


@pytest.mark.parametrize("keys", [{"ipam": {}}, {"ipam": None}])
def test_layer_2_only(network: Network, wire: Neighbours, keys: dict[str, Any]) -> None:
    result = network.add("one", **keys)

    assert [result.get("ips", []), result["interfaces"][0]["name"]] == [[], "eth0"]
    assert "UP" in link(network, "one")["flags"]
    network.node.run(["ip", "address", "add", "192.0.2.9/24", "dev", "eth0"], netns=network.namespace("one"))
    assert network.ping("one", wire.ipv4[1])
    network.succeed("CHECK", "one", prevResult=result, **keys)
    network.succeed("DEL", "one", **keys)


def test_an_address_that_the_neighbour_has_is_told(network: Network, neighbour: Node) -> None:
    """By IPv6 duplicate address detection, as with the reference plugin."""
    network.node.pod_namespace("one")
    before = network.node.state()
    neighbour.run(["ip", "address", "add", "2001:db8::10/64", "dev", "uplink0", "nodad"])

    assert "2001:db8::10" in network.fail("ADD", "one")["msg"]
    network.node.assert_same_state(before, ignore=["files/*networks*"])


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
    assert known[address] == link(network, "two")["address"]


@pytest.mark.parametrize("way", ["with the result", "without", "again"])
def test_nothing_is_left(network: Network, way: str) -> None:
    netns = network.node.pod_namespace("one")
    before, inside = network.node.state(), names(network.node, netns)
    result = network.succeed("ADD", "one")

    for _ in range(2 if way == "again" else 1):
        network.succeed("DEL", "one", **({"prevResult": result} if way == "with the result" else {}))
    network.node.assert_same_state(before, ignore=["files/*networks*"])
    assert names(network.node, netns) == inside


def test_the_namespace_is_gone(network: Network) -> None:
    network.add("one")
    remove_namespace(network.namespace("one"))

    network.succeed("DEL", "one")
    reserved = [file.name for file in (network.node.var_lib_cni / "networks/net").glob("192.*")]
    assert reserved == []


def test_the_path_of_the_namespace_is_another_pods_by_now(network: Network, wire: Neighbours) -> None:
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


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("ip link set eth0 down", 'interface "eth0" in the container is down'),
        ("ip link set eth0 address 02:00:00:00:00:01", "MAC of"),
        ("ip address flush dev eth0 scope global", "is missing"),
        ("ip link delete eth0", '"eth0" is missing'),
    ],
)
def test_check_tells_damage(network: Network, damage: str, told: str) -> None:
    result = network.add("one")
    network.succeed("CHECK", "one", prevResult=result)
    network.node.run(damage.split(), netns=network.namespace("one"))

    assert told in network.fail("CHECK", "one", prevResult=result)["msg"]


def test_check_tells_a_missing_master(network: Network) -> None:
    result = network.add("one")

    assert "uplink9" in network.fail("CHECK", "one", master="uplink9", prevResult=result)["msg"]


def test_status(network: Network) -> None:
    def status(**keys: Any) -> tuple[int, object]:
        ran = network.node.plugin(network.bin_dir, "macvlan", "STATUS", network.config | keys)
        return ran.code, ran.stdout and ran.stdout["code"]

    assert status() == (0, None)
    assert status(master="uplink9") == (1, 50)
    assert status(master=None) == (1, 50)
    assert status(master="in-the-pod", linkInContainer=True) == (0, None)
    assert status(ipam={"type": "no-such-plugin"})[0] == 1


def test_gc_frees_addresses(network: Network) -> None:
    network.add("kept")
    network.add("lost")
    valid = [{"containerID": "id-kept", "ifname": "eth0"}]

    ran = network.node.plugin(network.bin_dir, "macvlan", "GC", network.config | {"cni.dev/valid-attachments": valid})

    assert ran.code == 0, ran
    reserved = {file.name for file in (network.node.var_lib_cni / "networks/net").glob("192.*")}
    assert reserved == {network.addresses("kept")[0]}


@pytest.mark.parametrize(
    "keys", [{"mode": "source"}, {"bcqueuelen": -1}, {"mtu": 67}, {"mac": "none"}, {"master": "a/b"}]
)
def test_bad_values_are_told_and_no_obstacle_to_del(network: Network, keys: dict[str, Any]) -> None:
    network.node.pod_namespace("one")

    error = network.fail("ADD", "one", **keys)

    assert (error["code"], error["msg"].split(":")[0]) == (7, next(iter(keys)))
    network.add("two")
    ran = network.run("DEL", "two", **keys)
    assert ran.code == 0, ran
    assert names(network.node, network.namespace("two")) == {"lo"}


# Mixed use with the reference plugin (Debian's)


@pytest.fixture
def reference(node: Node, wire: Neighbours) -> Network:
    assert wire.ifname == "uplink0"
    if not (REFERENCE_BIN_DIR / "macvlan").exists():
        pytest.skip(f"the reference plugins (Debian: containernetworking-plugins) are not in {REFERENCE_BIN_DIR}")
    return Network(node, REFERENCE_BIN_DIR, config(cniVersion="1.0.0"))


@pytest.fixture
def ours(network: Network) -> Network:
    network.config["cniVersion"] = "1.0.0"
    return network


@pytest.mark.parametrize("ours_first", [True, False])
def test_either_one_checks_and_deletes_the_others_pod(reference: Network, ours: Network, *, ours_first: bool) -> None:
    added, other = (ours, reference) if ours_first else (reference, ours)
    netns = ours.node.pod_namespace("one")
    before = ours.node.state()
    result = added.succeed("ADD", "one")

    other.succeed("CHECK", "one", prevResult=result)
    other.succeed("DEL", "one", prevResult=result)
    assert names(ours.node, netns) == {"lo"}
    reserved = list((ours.node.var_lib_cni / "networks/net").glob("192.*"))
    assert reserved == []
    ours.node.assert_same_state(before, ignore=["files/*networks*"])


def test_the_result_has_the_shape_of_the_references(reference: Network, ours: Network, wire: Neighbours) -> None:
    theirs, own = reference.add("theirs"), ours.add("own")

    assert [sorted(interface) for interface in theirs["interfaces"]] == [
        sorted(interface.keys() - {"mtu"}) for interface in own["interfaces"]
    ]
    assert [ip.keys() for ip in theirs["ips"]] == [ip.keys() for ip in own["ips"]]
    assert theirs.get("routes", []) == own.get("routes", [])
    seen = [settings(network, pod) for network, pod in ((reference, "theirs"), (ours, "own"))]
    assert json.dumps(seen[0]) == json.dumps(seen[1])
    for pod in ("own", "theirs"):
        until(lambda pod=pod: ours.ping(pod, wire.ipv6[1]))  # type: ignore[misc]
