"""REPAIR of masquerading in the form of the reference's nftables backend, which Debian's release does not have yet."""

import json
from collections.abc import Callable, Sequence
from ipaddress import ip_interface
from typing import Any

import pytest

from firewall import masquerade, masquerade_reference
from firewall.owner import Owner
from firewall.tables import Interface, Tables
from tests.node.firewall import inside, with_tables
from tests.nodes import Node

pytestmark = pytest.mark.sudo

ADDRESSES = [ip_interface("192.168.1.1/24"), ip_interface("2001:db8::1/64")]
OTHER = ip_interface("192.168.1.2/24")
# The hashes are those of the reference's own tests.
ONE = "6fd94d501e58f0aa-287fc69eff0574a2, net: unit-test, if: eth0, id: one"
TWO = "6fd94d501e58f0aa-d750b2c8f0f25d5f, net: unit-test, if: eth0, id: two"
TABLE = f"""
table inet cni_plugins_masquerade {{
    chain masq_checks {{
        ip saddr 192.168.1.1 ip daddr != 192.168.1.0/24 masquerade comment "{ONE}"
        ip6 saddr 2001:db8::1 ip6 daddr != 2001:db8::/64 masquerade comment "{ONE}"
        ip saddr 192.168.1.2 ip daddr != 192.168.1.0/24 masquerade comment "{TWO}"
    }}
    chain postrouting {{
        type nat hook postrouting priority srcnat
        ip daddr 224.0.0.0/4 return
        ip6 daddr ff00::/8 return
        goto masq_checks
    }}
}}
"""


@with_tables
def repair(tables: Tables, container_id: str, addresses: Sequence[Interface]) -> None:
    owner = Owner("unit-test", container_id, "eth0")
    masquerade.repair(tables, owner, addresses, "nftables", by_reference=True)


@with_tables
def remove(tables: Tables, container_id: str) -> None:
    masquerade_reference.remove(tables, Owner("unit-test", container_id, "eth0"), None)


def rules(node: Node) -> list[Any]:
    listed = [each["rule"] for each in node.nft() if "rule" in each]
    return sorted([rule["chain"], json.dumps(rule["expr"]), rule.get("comment")] for rule in listed)


def repair_all(node: Node) -> None:
    with inside(node.path):
        repair("one", ADDRESSES)
        repair("two", [OTHER])


def test_repaired_rules_equal_the_rules_of_the_reference(make_node: Callable[[], Node]) -> None:
    ours, theirs = make_node(), make_node()
    theirs.run(["nft", "-f", "-"], stdin=TABLE)

    repair_all(ours)

    assert [rule[0] for rule in rules(ours)] == ["masq_checks"] * 3 + ["postrouting"] * 3
    assert rules(ours) == rules(theirs)


def test_rules_in_order_stay(node: Node) -> None:
    node.run(["nft", "-f", "-"], stdin=TABLE)
    before = node.nft()

    repair_all(node)

    assert node.nft() == before


@pytest.mark.parametrize(
    "loss", ["flush chain inet T postrouting", "flush chain inet T masq_checks", "flush table inet T"]
)
def test_lost_rules_come_back(node: Node, loss: str) -> None:
    node.run(["nft", "-f", "-"], stdin=TABLE)
    before = rules(node)

    node.run(["nft", *loss.replace("T", "cni_plugins_masquerade").split()])
    repair_all(node)

    assert rules(node) == before


def test_repaired_rules_are_removed_like_the_references(node: Node) -> None:
    repair_all(node)
    with inside(node.path):
        remove("one")

        assert str(rules(node)).count("id: one") == 0
        assert str(rules(node)).count("id: two") == 1


def test_long_names_are_cut_as_the_reference_cuts_them(node: Node) -> None:
    with inside(node.path):
        repair("c" * 100, ADDRESSES)
        repair("c" * 100, ADDRESSES)

    comments = [rule[2] for rule in rules(node) if rule[2]]
    assert [len(comment) for comment in comments] == [128, 128]
