import errno

import pytest

from netlink.netfilter import Netfilter
from netlink.nft_transaction import KeyType
from netlink.nft_wire import BRIDGE, Element
from netlink.nftables import NftTable
from netlink.wire import NetlinkError
from tests.node.firewall import inside
from tests.nodes import Node

pytestmark = pytest.mark.sudo

IPV4_ADDRESS = KeyType(7, 4, 2)


def test_a_transaction_is_done_whole_or_not_at_all(node: Node) -> None:
    with inside(node.path), Netfilter() as netfilter:
        table = NftTable(netfilter, BRIDGE, "test")
        transaction = table.transaction()
        transaction.add_table()
        transaction.delete_chain("no_such_chain")

        with pytest.raises(NetlinkError, match="do both") as raised:
            table.commit(transaction, doing="do both")

    assert raised.value.errno == errno.ENOENT
    assert node.nft() == []


def test_a_transaction_for_rules_that_have_changed_since_is_refused(node: Node) -> None:
    with inside(node.path), Netfilter() as netfilter:
        table = NftTable(netfilter, BRIDGE, "test")
        transaction = table.transaction()
        transaction.add_table()
        generation = table.generation()
        node.run(["nft", "add", "table", "inet", "another"])

        assert not table.try_commit(transaction, "add a table", {errno.ERESTART}, generation)
        assert len(node.nft()) == 1
        assert table.try_commit(transaction, "add a table", {errno.ERESTART}, table.generation())

    assert len(node.nft()) == 2


def test_many_elements_are_listed_and_each_is_looked_up(node: Node) -> None:
    elements = [Element(number.to_bytes(4, "big"), f"number {number}") for number in range(3000)]
    with inside(node.path), Netfilter() as netfilter:
        table = NftTable(netfilter, BRIDGE, "test")
        transaction = table.transaction()
        transaction.add_table()
        transaction.add_set("numbers", IPV4_ADDRESS)
        for start in range(0, len(elements), 500):
            transaction.add_elements("numbers", elements[start : start + 500])
        table.commit(transaction, doing="add elements")

        assert sorted(table.elements("numbers")) == elements
        assert table.element("numbers", elements[77].key) == elements[77]
        assert table.element("numbers", b"\xff\xff\xff\xff") is None


def test_missing_nft_objects_are_none_or_empty(node: Node) -> None:
    with inside(node.path), Netfilter() as netfilter:
        table = NftTable(netfilter, BRIDGE, "test")
        assert table.uses() is None
        assert table.chain_uses("chain") is None
        assert table.element("set", b"\0\0\0\0") is None
        assert table.elements("set") == []
        assert table.rules("chain") == []


def test_the_rules_of_one_chain_come_with_their_comments(node: Node) -> None:
    node.run(["nft", "add table bridge test; add chain bridge test one; add chain bridge test two"])
    node.run(["nft", 'add rule bridge test one accept comment "here"; add rule bridge test two drop comment "there"'])
    node.run(["nft", "add rule bridge test one accept"])

    with inside(node.path), Netfilter() as netfilter:
        table = NftTable(netfilter, BRIDGE, "test")
        assert [rule.comment for rule in table.rules("one")] == ["here", ""]
