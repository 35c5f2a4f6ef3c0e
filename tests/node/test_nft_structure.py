"""The rules and chains that the firewall's elements need: restored if others flushed them, removed with the last."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_interface
from typing import NamedTuple

import pytest

from firewall import masquerade_nft as masquerading
from firewall import spoofcheck_nft as spoofcheck
from firewall.owner import Owner
from netlink.netfilter import Netfilter
from netlink.socket import Socket
from tests.node.firewall import (
    allow_only,
    disallow,
    inside,
    is_masqueraded,
    is_spoof_checked,
    masquerade,
    remove_unused,
    tables_of,
    unmasquerade,
)
from tests.nodes import Node

pytestmark = pytest.mark.sudo

OWNER = Owner("net", "c1", "eth0")
OTHER = Owner("net", "c2", "eth0")
ADDRESSES = [ip_interface("10.88.0.5/16"), ip_interface("fd00:88::5/64")]
OTHER_ADDRESSES = [ip_interface("10.88.0.6/16"), ip_interface("fd00:88::6/64")]
MAC, OTHER_MAC = "02:00:00:00:00:0a", "02:00:00:00:00:0b"


class Subject(NamedTuple):
    """One of the two tables, what puts an owner into it, takes it out, and tells whether it is in force."""

    table: str
    base_chain: str
    other_chain: str
    maps: tuple[tuple[str, str], ...]
    hook: str
    apply: Callable[[], None]
    apply_other: Callable[[], None]
    remove: Callable[[], None]
    remove_by_owner: Callable[[], None]
    remove_unused: Callable[[], None]
    holds: Callable[[], bool]


MASQUERADE = Subject(
    "inet cni_harness_masquerade",
    "subnet-10.88.0.0-16",
    "subnet-fd00_88__-64",
    (("map", "subnet-10.88.0.0-16"), ("map", "subnet-fd00_88__-64")),
    "type nat hook postrouting priority 101",
    lambda: masquerade(ADDRESSES, OWNER),
    lambda: masquerade(OTHER_ADDRESSES, OTHER),
    lambda: unmasquerade(OWNER, ADDRESSES),
    lambda: unmasquerade(OWNER),
    lambda: remove_unused(masquerading.collect),
    lambda: all(is_masqueraded(address, OWNER) for address in ADDRESSES),
)
SPOOF_CHECK = Subject(
    "bridge cni_harness",
    "prerouting",
    "check_source",
    (("map", "checked_ports"), ("set", "allowed_macs")),
    "type filter hook prerouting priority 0",
    lambda: allow_only("port1", MAC, OWNER),
    lambda: allow_only("port2", OTHER_MAC, OTHER),
    lambda: disallow(OWNER, "port1"),
    lambda: disallow(OWNER, "port1"),
    lambda: remove_unused(spoofcheck.collect),
    lambda: is_spoof_checked("port1", MAC, OWNER),
)
DAMAGES = {
    "flush table": "flush table {table}",
    "flush the base chain": "flush chain {table} {base_chain}",
    "flush another chain": "flush chain {table} {other_chain}",
    "delete the base chain": "delete chain {table} {base_chain}",
    "a base chain without a hook": "delete chain {table} {base_chain}; add chain {table} {base_chain}",
    "a base chain elsewhere": "delete chain {table} {base_chain}; add chain {table} {base_chain} {{ {hook}; }}",
}
subjects = pytest.mark.parametrize("subject", [MASQUERADE, SPOOF_CHECK], ids=["masquerade", "spoof check"])
damages = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)


def inflict(node: Node, damage: str, subject: Subject) -> None:
    node.run(["nft", damage.format(**subject._asdict())])


@subjects
@damages
def test_damage_is_noticed_and_repaired_by_the_next_of_the_same_owner(
    node: Node, subject: Subject, damage: str
) -> None:
    with inside(node.path):
        subject.apply()
        before = node.filtering()
        inflict(node, damage, subject)

        assert not subject.holds()
        subject.apply()
        assert subject.holds()

    assert node.filtering() == before


@subjects
@damages
def test_the_next_owner_repairs_it_for_all(node: Node, subject: Subject, damage: str) -> None:
    with inside(node.path):
        subject.apply()
        inflict(node, damage, subject)
        subject.apply_other()

        assert subject.holds()


@subjects
def test_rules_that_another_process_is_just_replacing_are_not_missed(node: Node, subject: Subject) -> None:
    """Between the two changes of one transaction, the kernel counts no rules in the chain."""
    elements = ", ".join(map(str, range(50_000)))
    script = f"""
        add table ip long
        add set ip long numbers {{ type mark; }}
        flush chain {subject.table} {subject.base_chain}
        add element ip long numbers {{ {elements} }}
        add rule {subject.table} {subject.base_chain} counter
    """
    with inside(node.path), ThreadPoolExecutor(1) as another:
        subject.apply()
        replaced = another.submit(node.run, ["nft", "-f", "-"], stdin=script)

        while not replaced.done():
            assert subject.holds()
        replaced.result()


@subjects
def test_a_deleted_table_is_noticed_and_made_anew(node: Node, subject: Subject) -> None:
    with inside(node.path):
        subject.apply()
        before = node.filtering()
        inflict(node, "delete table {table}", subject)

        assert not subject.holds()
        subject.apply()

    assert node.filtering() == before


@pytest.mark.mostly_slow(4, "a long table; a part is in make test")
@subjects
@damages
@pytest.mark.parametrize("way", ["remove", "remove_by_owner"])
def test_damaged_table_is_removed_with_its_last_owner(node: Node, subject: Subject, damage: str, way: str) -> None:
    with inside(node.path):
        subject.apply()
        inflict(node, damage, subject)
        getattr(subject, way)()

    assert node.nft() == []


@pytest.mark.mostly_slow(4, "each table; a part is in make test")
@subjects
@pytest.mark.parametrize("way", ["remove", "remove_by_owner", "remove_unused"])
@pytest.mark.parametrize("damage", ["", *DAMAGES.values()], ids=["no damage", *DAMAGES])
def test_table_with_flushed_elements_is_removed(node: Node, subject: Subject, damage: str, way: str) -> None:
    with inside(node.path):
        subject.apply()
        if damage:
            inflict(node, damage, subject)
        for kind, name in subject.maps:
            node.run(["nft", f"flush {kind} {subject.table} {name}"])
        getattr(subject, way)()

    assert node.nft() == []


@subjects
def test_table_with_a_foreign_chain_is_kept(node: Node, subject: Subject) -> None:
    with inside(node.path):
        subject.apply()
        inflict(node, "flush table {table}; add chain {table} of_others", subject)
        subject.remove()
        subject.remove_unused()

    assert [entry["chain"]["name"] for entry in node.nft() if "chain" in entry].count("of_others") == 1


@subjects
def test_the_rules_of_others_stay_when_nothing_of_ours_is_missing(node: Node, subject: Subject) -> None:
    with inside(node.path):
        subject.apply()
        inflict(node, 'add rule {table} {base_chain} counter comment "of others"', subject)
        subject.apply_other()

        assert subject.holds()
    assert "of others" in node.run(["nft", "list", "ruleset"]).stdout


def test_another_networks_rules_are_restored_too(node: Node) -> None:
    elsewhere = ip_interface("192.0.2.7/24")
    with inside(node.path):
        masquerade([elsewhere], OTHER)
        masquerade(ADDRESSES, OWNER)
        inflict(node, "flush table {table}", MASQUERADE)
        masquerade(OTHER_ADDRESSES, OTHER)

        assert is_masqueraded(elsewhere, OTHER)


class Sent(int):
    """The size of a request, in bytes; of replies it is an int."""


def test_cost_of_an_address_is_independent_of_their_number(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    send, receive = Socket._send, Socket._receive

    def counted_send(self: Socket, packet: bytes | bytearray) -> None:
        sizes.append(Sent(len(packet)))
        send(self, packet)

    def counted_receive(self: Socket) -> object:
        received = list(receive(self))
        sizes.append(sum(len(frame.encoded) for frame in received))
        return iter(received)

    monkeypatch.setattr(Socket, "_send", counted_send)
    monkeypatch.setattr(Socket, "_receive", counted_receive)

    def cost(number: int) -> tuple[list[int], list[int], list[int]]:
        address, owner = ip_interface((ip_address("10.88.1.0") + number, 16)), Owner("net", f"c{number:04}", "eth0")
        sizes.clear()
        masquerading.apply(tables, owner, [address])
        added = sizes.copy()
        sizes.clear()
        masquerading.remove(tables, owner, [address])
        deleted = sizes.copy()
        sizes.clear()
        masquerading.remove(tables, owner)  # again, of a pod that is gone
        deleted_again = sizes.copy()
        masquerading.apply(tables, owner, [address])
        return added, deleted, deleted_again

    with inside(node.path), Netfilter() as netfilter:
        tables = tables_of(netfilter)
        masquerading.apply(tables, OWNER, [ip_interface("10.88.255.1/16")])
        first = cost(100)
        costs = [cost(number) for number in range(101, 250)]

    # The owner's list of addresses is text: all these have three digits.
    assert costs[-1] == first
    # One sending with the look-ups and one with the transaction; the rest are replies.
    assert [sum(isinstance(each, Sent) for each in verb) for verb in first] == [2, 2, 1]
