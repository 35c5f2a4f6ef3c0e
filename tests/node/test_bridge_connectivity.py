"""The bridge plugin connects pods with each other and with the node, over IPv4 and IPv6."""

from pathlib import Path

import pytest

from tests.attachments import Network, bridge_config
from tests.nodes import Node


@pytest.fixture
def network(node: Node, bin_dir: Path) -> Network:
    return Network(node, bin_dir, bridge_config())


def test_pods_reach_each_other_and_the_node(network: Network) -> None:
    network.add("one")
    network.add("two")

    for address in [*network.addresses("two"), "10.88.0.1", "fd00:88::1"]:
        assert network.ping("one", address), address


def test_the_node_reaches_a_pod(network: Network) -> None:
    network.add("one")

    for address in network.addresses("one"):
        assert network.ping(None, address), address


def test_result_matches_the_kernel(network: Network) -> None:
    result = network.add("one")

    bridge, host_veth, inner = result["interfaces"]
    (bridge_link,) = network.node.ip("-d", "link", "show", "br0")
    (host_link,) = network.node.ip("-d", "link", "show", host_veth["name"])
    (inner_link,) = network.node.ip("-d", "link", "show", "eth0", netns=network.namespace("one"))
    assert bridge == {"name": "br0", "mac": bridge_link["address"], "mtu": bridge_link["mtu"]}
    assert host_veth == {"name": host_link["ifname"], "mac": host_link["address"], "mtu": host_link["mtu"]}
    assert inner == {
        "name": "eth0",
        "mac": inner_link["address"],
        "mtu": inner_link["mtu"],
        "sandbox": network.namespace("one"),
    }
    assert host_link["master"] == "br0"
    assert host_link["ifalias"] == "net/id-one/eth0"
    assert [ip["address"].split("/")[0] for ip in result["ips"]] == network.addresses("one")
    assert [ip["gateway"] for ip in result["ips"]] == ["10.88.0.1", "fd00:88::1"]
    assert [ip["interface"] for ip in result["ips"]] == [2, 2]


def test_routes_of_the_pod(network: Network) -> None:
    network.add("one")
    netns = network.namespace("one")

    (ipv4,) = network.node.ip("route", "show", "default", netns=netns)
    (ipv6,) = network.node.ip("-6", "route", "show", "default", netns=netns)
    assert (ipv4["gateway"], ipv4["dev"]) == ("10.88.0.1", "eth0")
    assert (ipv6["gateway"], ipv6["dev"]) == ("fd00:88::1", "eth0")


def test_the_bridge_keeps_its_mac_while_pods_come_and_go(network: Network) -> None:
    def mac() -> str:
        (bridge,) = network.node.ip("link", "show", "br0")
        address: str = bridge["address"]
        return address

    network.add("one")
    at_first = mac()
    for number in range(5):
        network.add(f"more-{number}")
    network.succeed("DEL", "one")

    assert mac() == at_first


def test_gateways_and_forwarding_on_the_node(network: Network) -> None:
    before = network.node.run(["sysctl", "-n", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"]).stdout
    network.add("one")

    (bridge,) = network.node.ip("addr", "show", "dev", "br0")
    addresses = {f"{a['local']}/{a['prefixlen']}" for a in bridge["addr_info"] if a["scope"] == "global"}
    after = network.node.run(["sysctl", "-n", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"]).stdout
    assert before.split() == ["0", "0"]
    assert addresses == {"10.88.0.1/16", "fd00:88::1/64"}
    # Usable now, not when duplicate address detection has ended in a second or two.
    assert not any(address.get("tentative") for address in bridge["addr_info"] if address["scope"] == "global")
    assert after.split() == ["1", "1"]


def test_two_interfaces_of_one_pod(network: Network) -> None:
    network.add("one")
    network.succeed("ADD", "one", ifname="net1", ipam={"type": "host-local", "subnet": "10.88.0.0/16"})

    first, second = network.addresses("one")[0], network.addresses("one", "net1")[0]
    assert first != second
    network.succeed("DEL", "one", ifname="net1")
    assert network.ping("one", "10.88.0.1")
    assert network.node.ip("link", "show", "type", "veth", netns=network.namespace("one"))[0]["ifname"] == "eth0"


def test_layer_2_only(network: Network) -> None:
    for pod in ("one", "two"):
        result = network.add(pod, ipam={})
        assert "ips" not in result
    for number, pod in enumerate(("one", "two"), 1):
        netns = network.namespace(pod)
        network.node.run(["ip", "address", "add", f"192.0.2.{number}/24", "dev", "eth0"], netns=netns)

    assert network.ping("one", "192.0.2.2")


def test_check_notices_that_the_interface_is_down(network: Network) -> None:
    result = network.add("one", ipam={})
    network.succeed("CHECK", "one", ipam={}, prevResult=result)
    network.node.run(["ip", "link", "set", "eth0", "down"], netns=network.namespace("one"))

    assert "is down" in network.fail("CHECK", "one", ipam={}, prevResult=result)["msg"]
    # With disableContainerInterface, down is the right state.
    network.succeed("CHECK", "one", ipam={}, disableContainerInterface=True, prevResult=result)


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])
def test_every_version_of_the_specification(network: Network, version: str) -> None:
    result = network.add("one", cniVersion=version)

    assert result["cniVersion"] == version
    assert network.ping("one", "10.88.0.1")
    if version >= "0.4.0":
        network.succeed("CHECK", "one", cniVersion=version, prevResult=result)
    network.succeed("DEL", "one", cniVersion=version, prevResult=result)
    assert network.node.ip("link", "show", "type", "veth") == []
