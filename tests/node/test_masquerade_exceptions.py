"""`ipMasqExcept`: packets to these ranges keep the pod's address, as two nodes on one wire and their pods see it."""

import copy
import json
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.attachments import SHARED_BY_PODS, Network, bridge_config
from tests.node.test_bridge_masquerade import seen_source
from tests.nodes import Neighbours, Node, veth_between

CLUSTER = ["10.88.0.0/15", "fd00:88::/31"]
"""The ranges of both nodes' pods."""
OTHER_NODE = ["10.89.0.0/16", "fd00:89::/64"]
IPAM = {
    "type": "host-local",
    "ranges": [[{"subnet": each}] for each in OTHER_NODE],
    "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
}
BRIDGE = bridge_config(ipMasq=True)
PTP = {key: value for key, value in BRIDGE.items() if key not in {"bridge", "isGateway"}} | {"type": "ptp"}
BACKENDS = pytest.mark.parametrize("backend", ["nftables", "iptables"])
TABLE = "inet cni_harness_masquerade"


class Nodes(NamedTuple):
    """Two nodes that know the way to each other's pods."""

    one: Network
    other: Network
    wire: Neighbours

    def sources(self, pod: str = "one") -> list[str]:
        """The source addresses of a pod's connections: seen by the pod of the other node, then by that node."""
        return [
            *(seen_source(self.one, pod, Pod(self.other, "far"), address) for address in self.other.addresses("far")),
            *(seen_source(self.one, pod, self.other.node, ends[1]) for ends in (self.wire.ipv4, self.wire.ipv6)),
        ]

    def uplinks(self) -> list[str]:
        return [str(ip_address(ends[0])) for ends in (self.wire.ipv4, self.wire.ipv6)]


class Pod(Node):
    """A pod as a neighbour: the commands run in its namespace."""

    def __init__(self, network: Network, pod: str) -> None:
        vars(self).update(vars(network.node))
        self._netns = network.namespace(pod)

    def command(self, args: Any, netns: str | None = None) -> list[str]:
        return super().command(args, netns or self._netns)


def rules(node: Node) -> dict[str, object]:
    """A snapshot's part of nftables and iptables."""
    sections = {name.partition("/")[2]: things for name, things in node.state().sections.items()}
    return {name: things for name, things in sections.items() if name.startswith(("nft ", "iptables "))}


@pytest.fixture
def two_nodes(make_node: Callable[[], Node], bin_dir: Path) -> Callable[[dict[str, Any]], Nodes]:
    """Return a function that makes two nodes; the configuration is the first node's network."""

    def make(config: dict[str, Any]) -> Nodes:
        nodes = make_node(), make_node()
        wire = veth_between(*nodes)
        ranges = ["10.88.0.0/16", "fd00:88::/64"], OTHER_NODE
        for end, node in enumerate(nodes):
            for target, via in zip(ranges[1 - end], (wire.ipv4[1 - end], wire.ipv6[1 - end]), strict=True):
                node.run(["ip", "route", "add", target, "via", via])
        other = Network(nodes[1], bin_dir, bridge_config(ipam=IPAM))
        other.add("far")
        return Nodes(Network(nodes[0], bin_dir, copy.deepcopy(config)), other, wire)

    return make


@pytest.mark.mostly_slow(3, "each plugin and back end; a part is in make test")
@BACKENDS
@pytest.mark.parametrize("config", [BRIDGE, PTP], ids=["bridge", "ptp"])
def test_named_ranges_see_the_pods_address_and_others_the_nodes(
    two_nodes: Callable[[dict[str, Any]], Nodes], config: dict[str, Any], backend: str
) -> None:
    nodes = two_nodes(config | {"ipMasqBackend": backend})
    nodes.one.add("plain")
    result = nodes.one.add("one", ipMasqExcept=CLUSTER)

    assert nodes.sources("one") == [*nodes.one.addresses("one"), *nodes.uplinks()]
    assert nodes.sources("plain") == [*nodes.uplinks(), *nodes.uplinks()]
    nodes.one.succeed("CHECK", "one", prevResult=result, ipMasqExcept=CLUSTER)


@BACKENDS
def test_pods_keep_the_exceptions_of_their_add(node: Node, bin_dir: Path, backend: str) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True, ipMasqBackend=backend))
    network.add("plain")
    network.succeed("DEL", "plain")
    before = node.state()
    results = {}
    for pod, exceptions in (("none", []), ("one", ["10.0.0.0/8"]), ("two", CLUSTER)):
        results[pod] = network.add(pod, ipMasqExcept=exceptions), exceptions

    for pod, (result, exceptions) in results.items():
        network.succeed("CHECK", pod, prevResult=result, ipMasqExcept=exceptions)
    for pod, (result, _) in results.items():
        network.succeed("DEL", pod, prevResult=result, ipMasqExcept=["192.0.2.0/24"])
    node.assert_same_state(before, ignore=SHARED_BY_PODS)


@pytest.mark.mostly_slow(2, "each back end; a part is in make test")
@BACKENDS
def test_del_without_a_result_and_gc_leave_nothing(node: Node, bin_dir: Path, backend: str) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True, ipMasqBackend=backend, ipMasqExcept=CLUSTER))
    for pod in ("one", "two"):
        network.add(pod)

    network.succeed("DEL", "one")
    assert ("10.88.0.2" in str(node.nft()), "10.88.0.3" in str(node.nft())) == (False, True)
    network.succeed("GC", "one", **{"cni.dev/valid-attachments": []})

    assert "10.88.0.3" not in str(node.nft())
    assert "subnet-" not in str(node.nft())
    assert "except-" not in str(node.nft())


@pytest.mark.mostly_slow(2, "each back end; a part is in make test")
@BACKENDS
def test_each_interface_of_a_container_has_its_own_exceptions(
    two_nodes: Callable[[dict[str, Any]], Nodes], backend: str
) -> None:
    nodes = two_nodes(BRIDGE | {"ipMasqBackend": backend})
    network = nodes.one
    first = network.add("one")
    before = rules(network.node)

    second = network.succeed("ADD", "one", ifname="eth1", ipMasqExcept=CLUSTER)
    [far, *_] = nodes.other.addresses("far")
    seen = []
    for ifname in ("eth0", "eth1"):
        [own, *_] = network.addresses("one", ifname)
        route = ["ip", "route", "replace", "default", "via", "10.88.0.1", "dev", ifname, "src", own]
        network.node.run(route, netns=network.namespace("one"))
        seen.append(seen_source(network, "one", Pod(nodes.other, "far"), far))
    assert seen == [nodes.wire.ipv4[0], network.addresses("one", "eth1")[0]]
    network.succeed("CHECK", "one", ifname="eth1", prevResult=second, ipMasqExcept=CLUSTER)
    network.succeed("DEL", "one", ifname="eth1", prevResult=second)

    assert rules(network.node) == before
    network.succeed("CHECK", "one", prevResult=first)


@pytest.mark.mostly_slow(3, "each loss; a part is in make test")
@pytest.mark.parametrize(
    ("backend", "damage"),
    [
        ("nftables", [["nft", "flush", "ruleset"]]),
        ("nftables", [["nft", "flush", "table", *TABLE.split()]]),
        ("nftables", [["nft", "flush", "set", *TABLE.split(), "EXCEPT"]]),
        ("nftables", [["nft", "delete", "element", *TABLE.split(), "EXCEPT", "{ 10.88.0.0/15 }"]]),
        ("iptables", [["nft", "flush", "ruleset"]]),
        ("iptables", [["iptables", "-t", "nat", "-D", "CHAIN", "1"]]),
    ],
    ids=["ruleset", "table", "set", "element", "iptables ruleset", "iptables rule"],
)
def test_check_notices_lost_exceptions_and_repair_puts_them_back(
    node: Node, bin_dir: Path, backend: str, damage: list[list[str]]
) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True, ipMasqBackend=backend, ipMasqExcept=CLUSTER))
    result = network.add("one")
    before = rules(node)
    network.succeed("REPAIR", "one", prevResult=result)
    assert rules(node) == before
    [chain, *_] = [name for name in names(node, "chain") if name.startswith("CNI-")] or [""]
    [exceptions, *_] = [name for name in names(node, "set") if name.startswith("except-10")] or [""]

    for command in damage:
        node.run([each.replace("EXCEPT", exceptions).replace("CHAIN", chain) for each in command])
    error = network.fail("CHECK", "one", prevResult=result)
    assert "not masqueraded with ipMasqExcept 10.88.0.0/15, fd00:88::/31: 10.88.0.2/16" in error["msg"]
    network.succeed("REPAIR", "one", prevResult=result)

    assert rules(node) == before
    network.succeed("CHECK", "one", prevResult=result)
    network.succeed("DEL", "one", prevResult=result)
    assert "10.88.0" not in str(node.nft())


def names(node: Node, kind: str) -> list[str]:
    """The names of the nftables objects of one kind."""
    return [entry[kind]["name"] for entry in node.nft() if kind in entry]


def test_an_add_with_other_exceptions_moves_a_leftover_of_its_address(node: Node, bin_dir: Path) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True))
    network.add("one", ipMasqExcept=CLUSTER)
    network.config["name"] = "later"  # its own reservations: the same addresses
    network.config["bridge"] = "br1"

    result = network.add("two", ipMasqExcept=["10.0.0.0/8"], isGateway=False)

    network.succeed("CHECK", "two", prevResult=result, ipMasqExcept=["10.0.0.0/8"], isGateway=False)
    maps = [entry["map"] for entry in node.nft() if "map" in entry]
    assert [len(each.get("elem", [])) for each in maps if "10.88" in each["name"]].count(1) == 1


def test_exceptions_saved_and_reloaded_by_nft_are_recognized(node: Node, bin_dir: Path) -> None:
    exceptions = ["10.0.0.0/8", "10.1.0.0/16", "11.0.0.0/16", "240.0.0.0/4", "0.0.0.0/7", "ff00::/8", "fd01::/16"]
    network = Network(node, bin_dir, bridge_config(ipMasq=True, ipMasqExcept=exceptions))
    result = network.add("one")
    before = rules(node)
    saved = node.run(["nft", "list", "ruleset"]).stdout
    assert "elements = { 0.0.0.0/7, 10.0.0.0-11.0.255.255,\n" in saved

    node.run(["nft", "flush", "ruleset"])
    node.run(["nft", "-f", "-"], stdin=saved)

    assert rules(node) == before
    network.succeed("CHECK", "one", prevResult=result)
    network.succeed("DEL", "one", prevResult=result)
    assert node.nft() == []


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("10.0.0.0/8", 'ipMasqExcept: expected a list, got "10.0.0.0/8"'),
        (["10.0.0.0/8", "10.0.0.0"], 'ipMasqExcept[1]: expected a CIDR, got "10.0.0.0"'),
        (["fd00::/129"], 'ipMasqExcept[0]: expected a CIDR, got "fd00::/129"'),
        (["0.0.0.0/0"], 'ipMasqExcept[0]: expected a CIDR with a prefix length of at least 1, got "0.0.0.0/0"'),
    ],
)
def test_add_refuses_bad_values_and_changes_nothing(node: Node, bin_dir: Path, value: object, told: str) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True))
    node.pod_namespace("one")
    before = node.state()

    error = network.fail("ADD", "one", ipMasqExcept=value)

    assert (error["code"], told) == (7, error["msg"]), json.dumps(error)
    node.assert_same_state(before)
