"""An interface of the host moves into the pod and comes back as it was."""

from typing import Any

import pytest

from tests.attachments import Network
from tests.masters import IPAM, names
from tests.node.host_device.devices import DEVICE, assert_back, device_link
from tests.nodes import Neighbours, until, until_usable


def test_the_pod_has_the_device_and_reaches_the_neighbour(either: Network, wire: Neighbours) -> None:
    [before] = either.node.ip("link", "show", DEVICE)

    result = either.add("one")

    netns = either.namespace("one")
    moved = device_link(either, netns)
    assert DEVICE not in names(either.node)
    assert (moved["ifindex"], moved["address"]) == (before["ifindex"], before["address"])
    assert result["interfaces"] == [{"name": "eth0", "mac": before["address"], "mtu": 1450, "sandbox": netns}]
    assert [ip["interface"] for ip in result["ips"]] == [0, 0]
    for address in (wire.ipv4[1], wire.ipv6[1]):
        assert either.ping("one", address), address
    assert moved["ifalias"] == DEVICE, "the reference plugin's DEL reads it"
    either.succeed("CHECK", "one", prevResult=result)


@pytest.mark.mostly_slow(4, "each state of the device; a part is in make test")
@pytest.mark.parametrize("way", ["with the result", "without", "again", "without the namespace's path"])
def test_del_restores_the_device(either: Network, way: str) -> None:
    netns = either.node.pod_namespace("one")
    before = either.node.state()
    result = either.succeed("ADD", "one")

    if way == "without the namespace's path":
        either.succeed("DEL", "one", netns="")
    for _ in range(2 if way == "again" else 1):
        either.succeed("DEL", "one", **({"prevResult": result} if way == "with the result" else {}))

    assert_back(either, before, netns)
    assert list((either.node.var_lib_cni / "networks/net").glob("192.*")) == []


def test_device_that_was_down_comes_back_down(network: Network) -> None:
    node = network.node
    node.run(["ip", "link", "set", DEVICE, "alias", "to the rack", "down"])
    netns = node.pod_namespace("one")
    before = node.state()
    network.succeed("ADD", "one", ipam={})

    network.succeed("DEL", "one", ipam={})

    node.assert_same_state(before)
    [link_now] = node.ip("link", "show", DEVICE)
    assert ("UP" in link_now["flags"], link_now["ifalias"]) == (False, "to the rack")
    assert names(node, netns) == {"lo"}


def test_a_port_of_a_bridge_comes_back_to_it(network: Network) -> None:
    node = network.node
    node.run(["ip", "link", "add", "br7", "address", "02:00:00:00:00:01", "up", "type", "bridge"])
    node.run(["ip", "link", "set", DEVICE, "master", "br7"])
    network.add("one", ipam={})
    assert "master" not in device_link(network, network.namespace("one"))

    network.succeed("DEL", "one", ipam={})

    assert device_link(network, None, DEVICE)["master"] == "br7"


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(
    "doing",
    [
        "ip link set eth0 down name other",
        "ip link set eth0 alias lost",
        "ip link set eth0 address 02:00:00:00:00:01 mtu 1300",
    ],
)
def test_device_changed_in_the_pod_comes_back_as_before(network: Network, doing: str) -> None:
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    network.succeed("ADD", "one")
    network.node.run(doing.split(), netns=netns)

    network.succeed("DEL", "one")

    assert_back(network, before, netns)


def test_device_moves_despite_equal_names_on_the_other_side(network: Network) -> None:
    """The host has an `eth0`, the pod a link with the device's name: neither one is touched."""
    node = network.node
    netns = node.pod_namespace("one")
    node.run(["ip", "link", "add", "eth0", "type", "bridge"])
    node.run(["ip", "link", "add", DEVICE, "type", "bridge"], netns=netns)
    before = node.state()

    network.succeed("ADD", "one")
    assert names(node, netns) == {"lo", "eth0", DEVICE}
    network.succeed("DEL", "one")

    assert_back(network, before)
    assert names(node, netns) == {"lo", DEVICE}


def test_del_fails_if_the_device_name_is_taken_on_the_host(network: Network) -> None:
    node = network.node
    netns = node.pod_namespace("one")
    before = node.state()
    network.succeed("ADD", "one")
    node.run(["ip", "link", "add", DEVICE, "type", "bridge"])
    in_pod = [node.ip(what, netns=netns) for what in ("address", "route")]
    assert "UP" in device_link(network, netns)["flags"]

    error = network.fail("DEL", "one")

    assert error["msg"] == f'the device "{DEVICE}" cannot have its name back: another interface of the host has it'
    # As the reference leaves it: name, state, addresses and routes.
    assert [node.ip(what, netns=netns) for what in ("address", "route")] == in_pod
    node.run(["ip", "link", "delete", DEVICE])
    network.succeed("DEL", "one")
    assert_back(network, before, netns)


def test_a_device_that_the_host_refuses_stays_in_the_pod_as_it_was(network: Network) -> None:
    """The kernel refuses it for its alternative name, which no look finds: as for a name taken after the look."""
    node = network.node
    netns = node.pod_namespace("one")
    before = node.state()
    network.succeed("ADD", "one")
    node.run(["ip", "route", "add", "198.51.100.0/24", "dev", "eth0"], netns=netns)
    node.run(["ip", "-6", "route", "add", "2001:db8:9::/48", "dev", "eth0"], netns=netns)
    until_usable(node, "eth0", netns)
    node.run(["ip", "link", "add", "enp0s31f6", "type", "bridge"])

    def in_pod() -> list[Any]:
        return [node.ip(*words, netns=netns) for words in (["address"], ["route"], ["-6", "route"])]

    was = in_pod()
    error = network.fail("DEL", "one")

    assert error["msg"] == (
        f'the device "{DEVICE}" cannot go back: another interface of the host has one of its names: {DEVICE}, enp0s31f6'
    )
    until(lambda: in_pod() == was)
    node.run(["ip", "link", "delete", "enp0s31f6"])
    network.succeed("DEL", "one")
    assert_back(network, before, netns)


def test_the_pods_name_is_taken(unplugged: Network) -> None:
    netns = unplugged.node.pod_namespace("one")
    unplugged.node.run(["ip", "link", "add", "eth0", "type", "bridge"], netns=netns)
    before = unplugged.node.state()

    assert "exists already" in unplugged.fail("ADD", "one")["msg"]

    unplugged.node.assert_same_state(before)
    assert names(unplugged.node, netns) == {"lo", "eth0"}


def test_a_second_add_fails_and_changes_nothing(network: Network, wire: Neighbours) -> None:
    network.add("one")

    assert "exists already" in network.fail("ADD", "one")["msg"]
    assert network.ping("one", wire.ipv4[1])


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("mtu", [1300, 1500])
def test_mtu(network: Network, mtu: int) -> None:
    node = network.node
    netns = node.pod_namespace("one")
    before = node.state()
    result = network.succeed("ADD", "one", mtu=mtu)
    assert device_link(network, netns)["mtu"] == result["interfaces"][0]["mtu"] == mtu
    network.succeed("CHECK", "one", mtu=mtu, prevResult=result)
    node.run(["ip", "link", "set", "eth0", "mtu", "1400"], netns=netns)
    assert "MTU of" in network.fail("CHECK", "one", mtu=mtu, prevResult=result)["msg"]

    network.succeed("DEL", "one", mtu=mtu)

    assert_back(network, before, netns)


def test_a_failing_add_leaves_the_device_as_it_was(network: Network) -> None:
    netns = network.node.pod_namespace("one")
    before = network.node.state()
    ipam = IPAM | {"routes": [{"dst": "203.0.113.0/24", "gw": "198.51.100.1"}]}

    assert "203.0.113.0/24" in network.fail("ADD", "one", ipam=ipam)["msg"]

    assert_back(network, before, netns)
