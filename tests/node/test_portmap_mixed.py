"""portmap beside the reference's: either suite removes the other's rules, and repair gives back the form that was."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli import REFERENCE_BIN_DIR
from tests.nodes import Node, veth_between
from tests.port_mappings import Ports, connects, mapping, refuses

pytestmark = pytest.mark.skipif(
    not (REFERENCE_BIN_DIR / "portmap").exists(), reason="Debian's containernetworking-plugins are not installed"
)

MAPPINGS = [mapping(8080, 80), mapping(8081, 81, "udp"), mapping(8082, 82, hostIP="192.0.2.1"), mapping(8083, 83)]
COMMON = ("CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-SETMARK", "CNI-HOSTPORT-MASQ")


def chains(node: Node) -> dict[str, list[str]]:
    """The rules of iptables for ports, by program and chain."""
    found: dict[str, list[str]] = {}
    for program in ("iptables-save", "ip6tables-save"):
        for line in node.run([program, "-t", "nat"]).stdout.splitlines():
            if line.startswith(":CNI-"):
                found.setdefault(f"{program} {line[1:].split()[0]}", [])
            elif line.startswith("-A CNI-"):
                found.setdefault(f"{program} {line.split()[1]}", []).append(line)
    return found


def of_containers(node: Node) -> dict[str, list[str]]:
    return {name: rules for name, rules in chains(node).items() if rules and not name.endswith(COMMON[1:])}


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("keys", [{}, {"snat": False}, {"markMasqBit": 7}], ids=str)
def test_both_suites_make_the_same_rules_of_iptables(
    make_node: Callable[[], Node], direct_bin_dir: Path, keys: dict[str, Any]
) -> None:
    made = []
    for bin_dir in (REFERENCE_BIN_DIR, direct_bin_dir):
        node = make_node()
        ports = Ports(node, bin_dir, backend="iptables", **keys)
        ports.portmap.config["cniVersion"] = ports.bridge.config["cniVersion"] = "1.0.0"
        ports.add("one", *MAPPINGS)
        made.append(chains(node))

    assert made[0] == made[1]


def test_either_suite_checks_and_removes_the_others_ports(node: Node, direct_bin_dir: Path) -> None:
    ours, theirs = (Ports(node, bin_dir, backend="iptables") for bin_dir in (direct_bin_dir, REFERENCE_BIN_DIR))
    for ports in (ours, theirs):
        ports.portmap.config["cniVersion"] = ports.bridge.config["cniVersion"] = "1.0.0"
    for adds, others in ((ours, theirs), (theirs, ours)):
        adds.add("one", *MAPPINGS)
        others.results, others.mappings = adds.results, adds.mappings
        assert connects(node.path, "127.0.0.1", 8080, adds.namespace("one"), 80)

        # Debian's own CHECK of portmap expects the rules of one family in both, and never passes.
        ours.succeed("CHECK", "one")
        others.succeed("DEL", "one")

        assert of_containers(node) == {}
        assert refuses(node.path, "127.0.0.1", 8080)


def test_a_pod_of_the_reference_is_repaired_in_its_form(node: Node, direct_bin_dir: Path) -> None:
    ours, theirs = Ports(node, direct_bin_dir), Ports(node, REFERENCE_BIN_DIR)
    for ports in (ours, theirs):
        ports.portmap.config["cniVersion"] = ports.bridge.config["cniVersion"] = "1.0.0"
    theirs.add("one", *MAPPINGS)
    ours.results, ours.mappings = theirs.results, theirs.mappings
    before = chains(node)
    node.run(["nft", "flush ruleset"])
    assert refuses(node.path, "127.0.0.1", 8080)

    ours.succeed("REPAIR", "one")

    assert chains(node) == before
    assert connects(node.path, "127.0.0.1", 8080, ours.namespace("one"), 80)
    theirs.succeed("DEL", "one")
    assert of_containers(node) == {}


LATER_RELEASE = """
add table {family} cni_hostport {{ comment "CNI portmap plugin"; }}
add chain {family} cni_hostport hostports
add chain {family} cni_hostport hostip_hostports
add chain {family} cni_hostport hostports_all
add chain {family} cni_hostport prerouting {{ type nat hook prerouting priority -100; }}
add chain {family} cni_hostport output {{ type nat hook output priority -100; }}
add chain {family} cni_hostport masquerading {{ type nat hook postrouting priority 100; }}
flush chain {family} cni_hostport hostports_all
add rule {family} cni_hostport hostports_all jump hostip_hostports
add rule {family} cni_hostport hostports_all jump hostports
flush chain {family} cni_hostport prerouting
add rule {family} cni_hostport prerouting fib daddr type local jump hostports_all
flush chain {family} cni_hostport output
add rule {family} cni_hostport output fib daddr type local jump hostports_all
add rule {family} cni_hostport hostports tcp dport 8080 dnat to {address}:80 comment "{container}"
add rule {family} cni_hostport masquerading {ip} saddr {plain} {ip} daddr {plain} masquerade comment "{container}"
"""
"""As the nftables backend of the reference's release 1.9 makes them (plugins/meta/portmap/portmap_nftables.go)."""


def test_rules_of_the_references_later_releases_are_checked_and_removed(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir)
    ports.attach("one")
    ports.mappings["one"] = [mapping(8080, 80)]
    for container in ("id-one", "id-other"):
        for family, plain in (("ip", "10.88.0.2"), ("ip6", "fd00:88::2")):
            address = plain if family == "ip" else f"[{plain}]"
            ip = "ip" if family == "ip" else "ip6"
            script = LATER_RELEASE.format(family=family, address=address, plain=plain, ip=ip, container=container)
            node.run(["nft", "-f", "-"], stdin=script)
    node.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/br0/route_localnet"])

    ports.succeed("CHECK", "one")
    ports.succeed("DEL", "one")

    listed = node.run(["nft", "list", "ruleset"]).stdout
    assert "id-one" not in listed
    assert listed.count("id-other") == 4
    assert ports.fail("CHECK", "one")["code"] == 999


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(
    "loss",
    ["flush ruleset", "flush table ip cni_hostport", "flush chain ip cni_hostport prerouting"],
    ids=lambda loss: loss.replace(" ", "-"),
)
def test_rules_of_the_references_later_releases_are_repaired(node: Node, direct_bin_dir: Path, loss: str) -> None:
    ours, theirs = Ports(node, direct_bin_dir, backend="nftables"), Ports(node, REFERENCE_BIN_DIR)
    theirs.bridge.config["cniVersion"] = "1.0.0"
    theirs.attach("one")
    ours.results = theirs.results
    ours.mappings["one"] = [mapping(8080, 80)]
    local = 'add rule ip cni_hostport masquerading ip saddr 127.0.0.1 ip daddr 10.88.0.2 masquerade comment "{}"\n'
    for container in ("id-other", "id-one"):
        for family, ip, plain in (("ip", "ip", "10.88.0.2"), ("ip6", "ip6", "fd00:88::2")):
            address = plain if family == "ip" else f"[{plain}]"
            script = LATER_RELEASE.format(family=family, address=address, plain=plain, ip=ip, container=container)
            node.run(["nft", "-f", "-"], stdin=script + (local.format(container) if family == "ip" else ""))
    before = hostports(node)
    ours.succeed("REPAIR", "one")
    assert hostports(node) == before
    node.run(["nft", loss])
    assert refuses(node.path, "10.88.0.1", 8080)

    ours.succeed("REPAIR", "one")

    assert [line for line in hostports(node) if "id-other" not in line] == [
        line for line in before if "id-other" not in line
    ]
    assert connects(node.path, "127.0.0.1", 8080, theirs.namespace("one"), 80)
    assert "cni_harness_portmap" not in str(node.nft())
    assert of_containers(node) == {}
    ours.succeed("DEL", "one")
    assert "id-one" not in str(hostports(node))


def hostports(node: Node) -> list[str]:
    """The reference's tables of both families, as nft(8) shows them."""
    listed = [node.run(["nft", "list", "table", family, "cni_hostport"]).stdout for family in ("ip", "ip6")]
    return "".join(listed).splitlines()


@pytest.mark.mostly_slow(4, "each pair of suites; a part is in make test")
@pytest.mark.parametrize("source", ["192.0.2.2", "192.0.2.99"])
@pytest.mark.parametrize("backend", ["nftables", "iptables"])
def test_conditions_hold_for_their_own_network(
    make_node: Callable[[], Node], direct_bin_dir: Path, backend: str, source: str
) -> None:
    node, neighbour = make_node(), make_node()
    wire = veth_between(node, neighbour)
    conditions = {"nftables": [f"ip saddr {source}", "ip daddr != 10.0.0.0/8"], "iptables": ["-s", source]}
    ports = Ports(node, direct_bin_dir, conditionsV4=conditions[backend])
    other = Ports(node, direct_bin_dir, name="other", backend=backend)
    other.bridge.config["bridge"] = "br1"
    subnet = {"ranges": [[{"subnet": "10.89.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}
    other.bridge.config["ipam"] = {"type": "host-local", **subnet}
    ports.add("one", mapping(8080, 80))
    ports.add("two", mapping(8081, 80))
    other.add("three", mapping(8082, 80))

    for pod, port in (("one", 8080), ("two", 8081)):
        one = ports.namespace(pod)
        if source == wire.ipv4[1]:
            assert connects(neighbour.path, wire.ipv4[0], port, one, 80) == source
        else:
            assert refuses(neighbour.path, wire.ipv4[0], port)
        assert connects(neighbour.path, wire.ipv6[0], port, one, 80)
        ports.succeed("CHECK", pod)
    assert connects(neighbour.path, wire.ipv4[0], 8082, other.namespace("three"), 80) == wire.ipv4[1]
    for pod in ("one", "two"):
        ports.succeed("DEL", pod, runtimeConfig=None, prevResult=None)
    other.succeed("CHECK", "three")
    other.succeed("DEL", "three")
    assert "cni_harness_portmap" not in json.dumps(node.nft())
    assert of_containers(node) == {}


def test_a_condition_that_nft_refuses_leaves_nothing(node: Node, direct_bin_dir: Path) -> None:
    good = Ports(node, direct_bin_dir, conditionsV4=["ip saddr 192.0.2.0/24"])
    good.add("one", mapping(8080, 80))
    before = node.filtering()
    bad = Ports(node, direct_bin_dir, conditionsV4=["no such word"])
    bad.attach("two")
    bad.mappings["two"] = [mapping(8081, 80)]

    error = bad.fail("ADD", "two")

    assert "conditions of the network" in error["msg"]
    assert "no such word" in error["msg"]
    assert node.filtering() == before
    good.succeed("CHECK", "one")
