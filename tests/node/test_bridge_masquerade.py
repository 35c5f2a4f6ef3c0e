"""ipMasq of the bridge plugin, seen from a neighbour that has no way back to the pods' network."""

from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.attachments import Network, bridge_config
from tests.nodes import Node, veth_between

# Answers each datagram with the address that it came from, and says when it is ready.
_ECHO_SOURCE = """
import socket, sys
with socket.create_server((sys.argv[1], 9000), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET) as s:
    print("ready", flush=True)
    for _ in range(2):
        connection, peer = s.accept()
        with connection:
            connection.sendall(peer[0].encode())
"""
_ASK = """
import socket, sys
with socket.create_connection((sys.argv[1], 9000)) as s:
    print(s.makefile().read())
"""


def seen_source(network: Network, pod: str, neighbour: Node, address: str) -> str:
    """The source address of a pod's TCP connection as the neighbour at `address` sees it."""
    with neighbour.background(["/usr/bin/python3", "-c", _ECHO_SOURCE, address]) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        asked = network.node.run(["/usr/bin/python3", "-c", _ASK, address], netns=network.namespace(pod))
    return asked.stdout.strip()


@pytest.mark.parametrize("backend", ["nftables", "iptables"])
def test_the_neighbour_sees_the_node(make_node: Callable[[], Node], bin_dir: Path, backend: str) -> None:
    node, neighbour = make_node(), make_node()
    wire = veth_between(node, neighbour)
    network = Network(node, bin_dir, bridge_config(ipMasq=True, ipMasqBackend=backend))
    network.add("one")

    assert seen_source(network, "one", neighbour, wire.ipv4[1]) == wire.ipv4[0]
    assert seen_source(network, "one", neighbour, wire.ipv6[1]) == str(ip_address(wire.ipv6[0]))


def test_neighbour_sees_the_pods_address_without_ip_masq(make_node: Callable[[], Node], bin_dir: Path) -> None:
    node, neighbour = make_node(), make_node()
    wire = veth_between(node, neighbour)
    neighbour.run(["ip", "route", "add", "10.88.0.0/16", "via", wire.ipv4[0]])
    network = Network(node, bin_dir, bridge_config())
    network.add("one")

    assert seen_source(network, "one", neighbour, wire.ipv4[1]) == network.addresses("one")[0]


def test_pods_see_each_others_own_addresses(node: Node, bin_dir: Path) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True))
    network.add("one")
    network.add("two")
    address = network.addresses("two")[0]
    two = network.namespace("two")

    with node.background(["/usr/bin/python3", "-c", _ECHO_SOURCE, address], netns=two) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        asked = node.run(["/usr/bin/python3", "-c", _ASK, address], netns=network.namespace("one"))

    assert asked.stdout.strip() == network.addresses("one")[0]


@pytest.mark.parametrize("backend", ["nftables", "iptables"])
def test_check_reports_lost_masquerading(node: Node, bin_dir: Path, backend: str) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True, ipMasqBackend=backend))
    result = network.add("one")

    network.succeed("CHECK", "one", prevResult=result)
    node.run(["nft", "flush", "ruleset"])
    error = network.fail("CHECK", "one", prevResult=result)
    assert "not masqueraded" in error["msg"]


@pytest.mark.parametrize("flushed", ["of the container", "POSTROUTING"])
def test_check_notices_that_rules_of_iptables_are_gone(node: Node, bin_dir: Path, flushed: str) -> None:
    ipam = {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]]}
    network = Network(node, bin_dir, bridge_config(ipMasq=True, ipMasqBackend="iptables", ipam=ipam))
    result = network.add("one")
    chains = [each["chain"]["name"] for each in node.nft() if "chain" in each]
    [own] = [name for name in chains if name.startswith("CNI-")]
    network.succeed("CHECK", "one", prevResult=result)
    node.run(["nft", "flush", "chain", "ip", "nat", own if flushed == "of the container" else flushed])

    assert "not masqueraded" in network.fail("CHECK", "one", prevResult=result)["msg"]


def test_check_lets_an_address_be_that_a_later_plugin_gave(node: Node, bin_dir: Path) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True))
    result = network.add("one")
    node.run(["ip", "address", "add", "192.0.2.77/32", "dev", "eth0"], netns=network.namespace("one"))
    later = {**result, "ips": [*result["ips"], {"address": "192.0.2.77/32", "interface": 2}]}

    network.succeed("CHECK", "one", prevResult=later)


@pytest.mark.parametrize(
    ("address", "subnet"), [("10.88.0.2", "subnet-10.88.0.0-16"), ("fd00:88::2", "subnet-fd00_88__-64")]
)
def test_check_notices_one_address_of_two(node: Node, bin_dir: Path, address: str, subnet: str) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True))
    result = network.add("one")
    node.run(["nft", f'delete element inet cni_harness_masquerade {subnet} {{ {address} : "{subnet}" }}'])

    error = network.fail("CHECK", "one", prevResult=result)
    assert address in error["msg"]


@pytest.mark.parametrize(("added", "deleted"), [("nftables", "iptables"), ("iptables", "nftables")])
def test_del_cleans_up_after_either_backend(node: Node, bin_dir: Path, added: str, deleted: str) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True))
    network.add("one", ipMasqBackend=added)
    assert "10.88.0.2" in str(node.nft())

    network.succeed("DEL", "one", ipMasqBackend=deleted)
    assert "10.88.0.2" not in str(node.nft())


def test_del_ends_the_masquerading_of_an_address_that_the_result_does_not_tell(node: Node, bin_dir: Path) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True))
    result = network.add("one")
    told = result | {"ips": [{"address": "192.0.2.7/24", "interface": 2}]}

    network.succeed("DEL", "one", prevResult=told)

    assert node.nft() == []


@pytest.mark.parametrize("backend", ["nftables", "iptables"])
def test_del_leaves_the_containers_other_interface_masqueraded(node: Node, bin_dir: Path, backend: str) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True, ipMasqBackend=backend))
    first = network.add("one")
    before = node.filtering()
    second = network.succeed("ADD", "one", ifname="eth1")

    network.succeed("DEL", "one", ifname="eth1", prevResult=second)

    assert node.filtering() == before
    network.succeed("CHECK", "one", prevResult=first)
    network.succeed("DEL", "one", prevResult=first)
    assert "10.88.0.2" not in str(node.nft())


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(
    "damage",
    [
        "flush table inet cni_harness_masquerade",
        "flush chain inet cni_harness_masquerade subnet-10.88.0.0-16",
        "delete table inet cni_harness_masquerade",
    ],
)
def test_check_notices_a_damaged_table_and_the_next_add_repairs_it(
    make_node: Callable[[], Node], bin_dir: Path, damage: str
) -> None:
    node, neighbour = make_node(), make_node()
    wire = veth_between(node, neighbour)
    network = Network(node, bin_dir, bridge_config(ipMasq=True))
    result = network.add("one")
    node.run(["nft", damage])

    assert "not masqueraded" in network.fail("CHECK", "one", prevResult=result)["msg"]
    later = network.add("two")
    network.succeed("CHECK", "two", prevResult=later)
    assert seen_source(network, "two", neighbour, wire.ipv4[1]) == wire.ipv4[0]
    network.succeed("DEL", "one")
    network.succeed("DEL", "two")
    assert node.nft() == []


@pytest.mark.parametrize("verb", ["DEL", "GC"])
def test_a_table_that_others_have_emptied_is_removed(node: Node, bin_dir: Path, verb: str) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True, macspoofchk=True))
    network.add("one")
    for table in ("inet cni_harness_masquerade", "bridge cni_harness"):
        node.run(["nft", f"flush table {table}"])
    for elements in ("subnet-10.88.0.0-16", "subnet-fd00_88__-64"):
        node.run(["nft", f"flush map inet cni_harness_masquerade {elements}"])

    network.succeed(verb, "one", **({"cni.dev/valid-attachments": []} if verb == "GC" else {}))
    assert node.nft() == []
