"""Nodes with masquerading as earlier releases did it: it stays in force, and goes with its pods."""

from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from pathlib import Path

import pytest

from firewall import masquerade_nft as module
from firewall.owner import Owner
from tests.attachments import Network, bridge_config
from tests.node.firewall import (
    act_before_commit,
    inside,
    is_masqueraded,
    masquerade,
    masqueraded,
    remove_unused,
    unmasquerade,
)
from tests.node.test_nft_masquerade_packets import FAMILIES, POD, Wiring, source_seen, wiring
from tests.nodes import Node

__all__ = ["wiring"]

pytestmark = pytest.mark.sudo

OWNER = Owner("net", "c1", "eth0")
OTHER = Owner("net", "c2", "eth0")
ADDRESS4 = ip_interface("10.88.0.5/16")
ADDRESS6 = ip_interface("fd00:88::5/64")
BOTH = [ADDRESS4, ADDRESS6]
NEXT = [ip_interface("10.88.0.6/16"), ip_interface("fd00:88::6/64")]

TABLE = """
table inet cni_harness {{
    map masquerade4 {{ type ipv4_addr : verdict; }}
    map masquerade6 {{ type ipv6_addr : verdict; }}
    chain postrouting {{
        type nat hook postrouting priority srcnat
        ip daddr 224.0.0.0/4 return
        ip6 daddr ff00::/8 return
        ip saddr vmap @masquerade4
        ip6 saddr vmap @masquerade6
    }}
    chain subnet-10.88.0.0-16 {{ ip daddr 10.88.0.0/16 return; masquerade; }}
    chain subnet-fd00_88__-64 {{ ip6 daddr fd00:88::/64 return; masquerade; }}
}}
add element inet cni_harness masquerade4 {{ {ipv4} comment "{label}" : goto subnet-10.88.0.0-16 }}
add element inet cni_harness masquerade6 {{ {ipv6} comment "{label}" : goto subnet-fd00_88__-64 }}
"""


def masquerade_by_map(node: Node, owner: Owner = OWNER, ipv4: str = "10.88.0.5", ipv6: str = "fd00:88::5") -> None:
    """Repeat the ADD of an earlier release."""
    node.run(["nft", "-f", "-"], stdin=TABLE.format(label=owner.label(), ipv4=ipv4, ipv6=ipv6))


def tables(node: Node) -> set[str]:
    return {entry["table"]["name"] for entry in node.nft() if "table" in entry}


def test_it_is_recognized(node: Node) -> None:
    masquerade_by_map(node)

    with inside(node.path):
        assert all(is_masqueraded(address, OWNER) for address in BOTH)
        assert not is_masqueraded(ADDRESS4, OTHER)
        assert not is_masqueraded(ip_interface("10.88.0.5/24"), OWNER)
        assert {(address, OWNER) for address in BOTH} == set(masqueraded())


@pytest.mark.parametrize("damage", ["flush chain inet cni_harness postrouting", "flush table inet cni_harness"])
def test_rules_that_others_have_flushed_are_missed(node: Node, damage: str) -> None:
    masquerade_by_map(node)
    node.run(["nft", damage])

    with inside(node.path):
        assert not is_masqueraded(ADDRESS4, OWNER)


@pytest.mark.parametrize("known", [BOTH, [ip_interface("192.0.2.1/24")], []])
def test_the_last_of_its_pods_takes_the_table_with_it(node: Node, known: list[IPv4Interface | IPv6Interface]) -> None:
    masquerade_by_map(node)

    with inside(node.path):
        unmasquerade(OTHER, BOTH)
        assert is_masqueraded(ADDRESS4, OWNER)
        unmasquerade(OWNER, known)

    assert node.nft() == []


def test_new_pods_do_without_it_and_outlive_it(node: Node) -> None:
    masquerade_by_map(node)

    with inside(node.path):
        masquerade(NEXT, OTHER)
        assert tables(node) == {"cni_harness", "cni_harness_masquerade"}
        assert {OWNER, OTHER} == {owner for _, owner in masqueraded()}
        unmasquerade(OWNER, BOTH)
        assert tables(node) == {"cni_harness_masquerade"}
        assert all(is_masqueraded(address, OTHER) for address in NEXT)


def test_it_outlives_new_pods(node: Node) -> None:
    masquerade_by_map(node)
    before = node.filtering()

    with inside(node.path):
        masquerade(NEXT, OTHER)
        unmasquerade(OTHER, NEXT)

    assert node.filtering() == before


def test_an_address_that_comes_to_another_pod_leaves_it(node: Node) -> None:
    masquerade_by_map(node)

    with inside(node.path):
        masquerade([ip_interface("10.88.0.5/24")], OTHER)

        assert {(ip_interface("10.88.0.5/24"), OTHER), (ADDRESS6, OWNER)} == set(masqueraded())
        unmasquerade(OWNER)

    assert tables(node) == {"cni_harness_masquerade"}


def test_an_address_taken_over_at_the_last_moment_is_not_taken_away(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_over() -> None:
        node.run(["nft", "delete element inet cni_harness masquerade4 { 10.88.0.5 : goto subnet-10.88.0.0-16 }"])
        element = '10.88.0.5 comment "net/c2/eth0" : goto subnet-10.88.0.0-16'
        node.run(["nft", f"add element inet cni_harness masquerade4 {{ {element} }}"])

    masquerade_by_map(node)
    act_before_commit(monkeypatch, take_over)
    with inside(node.path):
        unmasquerade(OWNER, BOTH)

        assert masqueraded() == [(ADDRESS4, OTHER)]


def test_chains_without_elements_are_removed(node: Node) -> None:
    masquerade_by_map(node)
    node.run(["nft", "flush map inet cni_harness masquerade4; flush map inet cni_harness masquerade6"])

    with inside(node.path):
        remove_unused(module.collect)

    assert node.nft() == []


@pytest.mark.parametrize("version", FAMILIES)
def test_packets_of_both_kinds_are_masqueraded(wiring: Wiring, version: int) -> None:
    neighbour, uplink = wiring.uplink(version, 1), wiring.uplink(version, 0)
    masquerade_by_map(wiring.node)
    assert source_seen(wiring, version, neighbour) == uplink

    with inside(wiring.node.path):
        masquerade(NEXT, OTHER)
        assert source_seen(wiring, version, neighbour) == uplink
        masquerade([POD[version]], OWNER)
        assert (POD[10 - version], OWNER) in masqueraded()

    assert source_seen(wiring, version, neighbour) == uplink


@pytest.mark.parametrize("verb", ["DEL", "GC"])
def test_the_plugin_checks_and_removes_it(node: Node, bin_dir: Path, verb: str) -> None:
    network = Network(node, bin_dir, bridge_config(ipMasq=True))
    result = network.add("one")
    network.add("two")
    owners = dict(masqueraded_in(node))
    [ipv4, ipv6] = [address for address, owner in owners.items() if owner == owners["10.88.0.2"]]
    node.run(["nft", "delete table inet cni_harness_masquerade"])
    masquerade_by_map(node, owners["10.88.0.2"], ipv4, ipv6)

    network.succeed("CHECK", "one", prevResult=result)
    network.succeed(verb, "one", **({"cni.dev/valid-attachments": []} if verb == "GC" else {}))

    assert node.nft() == []


def masqueraded_in(node: Node) -> list[tuple[str, Owner]]:
    with inside(node.path):
        return [(str(address.ip), owner) for address, owner in masqueraded()]
