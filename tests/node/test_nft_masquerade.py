import errno
import socket
from collections.abc import Callable
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

import pytest

from firewall import masquerade_nft as module
from firewall import masquerade_table
from firewall.owner import Owner
from netlink.netfilter import Netfilter
from netlink.wire import NetlinkError
from tests.node.firewall import (
    act_before_commit,
    all_at_once,
    inside,
    is_masqueraded,
    masquerade,
    masqueraded,
    remove_unused,
    tables_of,
    unmasquerade,
)
from tests.nodes import Node

pytestmark = pytest.mark.sudo

OWNER = Owner("net", "c1", "eth0")
OTHER = Owner("net", "c2", "eth0")
ADDRESS4 = ip_interface("10.88.0.5/16")
ADDRESS6 = ip_interface("fd00:88::5/64")
BOTH = [ADDRESS4, ADDRESS6]
ELSEWHERE = ip_interface("192.0.2.7/24")

EXPECTED = """
table inet cni_harness_masquerade {
    set owners { type ifname; elements = { "6e5fcbeeefc74e2" comment "10.88.0.5/16 fd00:88::5/64" } }
    counter subnet-10.88.0.0-16 {}
    counter subnet-fd00_88__-64 {}
    map subnet-10.88.0.0-16 { type ipv4_addr : counter; }
    map subnet-fd00_88__-64 { type ipv6_addr : counter; }
    chain subnet-10.88.0.0-16 {
        type nat hook postrouting priority srcnat
        ip daddr != 224.0.0.0/4 ip daddr != 10.88.0.0/16 counter name ip saddr map @subnet-10.88.0.0-16 masquerade
    }
    chain subnet-fd00_88__-64 {
        type nat hook postrouting priority srcnat
        ip6 daddr != ff00::/8 ip6 daddr != fd00:88::/64 counter name ip6 saddr map @subnet-fd00_88__-64 masquerade
    }
}
add element inet cni_harness_masquerade subnet-10.88.0.0-16 { 10.88.0.5 comment "net/c1/eth0" : "subnet-10.88.0.0-16" }
add element inet cni_harness_masquerade subnet-fd00_88__-64 { fd00:88::5 comment "net/c1/eth0" : "subnet-fd00_88__-64" }
"""

SETUP = """
from ipaddress import ip_interface
from firewall.owner import Owner
from tests.node.firewall import is_masqueraded, masquerade, unmasquerade
"""


def test_rules_equal_the_documented_nft_text(make_node: Callable[[], Node]) -> None:
    ours, theirs = make_node(), make_node()
    theirs.run(["nft", "-f", "-"], stdin=EXPECTED)

    with inside(ours.path):
        masquerade(BOTH, OWNER)

    assert theirs.filtering() == ours.filtering()
    assert ours.filtering()["nft rules"]


def test_rules_saved_and_reloaded_by_nft_are_recognized(node: Node) -> None:
    with inside(node.path):
        masquerade(BOTH, OWNER)
    saved = node.run(["nft", "list", "ruleset"]).stdout
    node.run(["nft", "flush", "ruleset"])
    node.run(["nft", "-f", "-"], stdin=saved)

    with inside(node.path):
        assert is_masqueraded(ADDRESS4, OWNER)
        unmasquerade(OWNER, BOTH)

    assert node.nft() == []


def test_the_last_address_takes_the_table_with_it(node: Node) -> None:
    node.run(["nft", "add", "table", "inet", "somebody_elses"])
    before = node.state()

    with inside(node.path):
        masquerade([ADDRESS4], OWNER)
        masquerade([ip_interface("10.88.0.6/16"), ip_interface("10.99.0.6/24")], OTHER)
        unmasquerade(OWNER, [ADDRESS4])
        assert len(masqueraded()) == 2
        unmasquerade(OTHER)
        unmasquerade(OTHER)

    node.assert_same_state(before)


def test_chain_of_an_unused_subnet_is_removed(node: Node) -> None:
    with inside(node.path):
        masquerade([ADDRESS4], OWNER)
        before = node.state()
        masquerade([ip_interface("10.99.0.6/24")], OTHER)
        unmasquerade(OTHER, [ip_interface("10.99.0.6/24")])

    node.assert_same_state(before)


def test_repeated_apply_changes_nothing(node: Node) -> None:
    with inside(node.path):
        masquerade(BOTH, OWNER)
        before = node.state()
        masquerade(BOTH, OWNER)

    node.assert_same_state(before)


def test_second_address_is_added_to_the_first(node: Node) -> None:
    with inside(node.path):
        masquerade([ADDRESS4], OWNER)
        masquerade(BOTH, OWNER)

        assert {(ADDRESS4, OWNER), (ADDRESS6, OWNER)} == set(masqueraded())


def test_nothing_to_masquerade_leaves_no_trace(node: Node) -> None:
    with inside(node.path):
        masquerade([], OWNER)
        unmasquerade(OWNER)
        unmasquerade(OWNER, BOTH)

        assert masqueraded() == []
        assert not is_masqueraded(ADDRESS4, OWNER)

    assert node.nft() == []


def test_an_element_left_behind_for_a_reused_address_is_replaced(node: Node) -> None:
    with inside(node.path):
        masquerade(BOTH, OWNER)

        masquerade([ADDRESS4], OTHER)

        assert is_masqueraded(ADDRESS4, OTHER)
        assert is_masqueraded(ADDRESS6, OWNER)
        assert len(masqueraded()) == 2


def test_the_former_owner_of_a_reused_address_cannot_take_it_away(node: Node) -> None:
    with inside(node.path):
        masquerade(BOTH, OWNER)
        masquerade([ADDRESS4], OTHER)

        unmasquerade(OWNER, BOTH)

        assert masqueraded() == [(ADDRESS4, OTHER)]
        unmasquerade(OWNER)
        assert is_masqueraded(ADDRESS4, OTHER)


@pytest.mark.parametrize("told", [[ELSEWHERE], [ADDRESS6, ELSEWHERE]])
def test_unmasquerade_with_other_addresses_removes_all_of_the_owner(
    node: Node, told: list[IPv4Interface | IPv6Interface]
) -> None:
    """As after a pod's address was changed by a later plugin, or by hand."""
    with inside(node.path):
        masquerade([ip_interface("10.88.0.6/16")], OTHER)
        before = node.filtering()
        masquerade(BOTH, OWNER)

        unmasquerade(OWNER, told)

    assert node.filtering() == before


def test_an_address_that_came_to_another_subnet_is_moved(node: Node) -> None:
    narrow = ip_interface("10.88.0.5/24")
    with inside(node.path):
        masquerade([ADDRESS4], OWNER)

        masquerade([narrow], OWNER)

        assert is_masqueraded(narrow, OWNER)
        assert not is_masqueraded(ADDRESS4, OWNER)
        assert [(narrow, OWNER)] == masqueraded()
        unmasquerade(OWNER, [narrow])

    assert node.nft() == []


@pytest.mark.parametrize("of_address", [ADDRESS4, ADDRESS6])
def test_only_the_owners_address_in_its_subnet_counts_as_masqueraded(
    node: Node, of_address: IPv4Interface | IPv6Interface
) -> None:
    wider = ip_interface(f"{of_address.ip}/{of_address.network.prefixlen - 1}")
    with inside(node.path):
        masquerade(BOTH, OWNER)

        assert is_masqueraded(of_address, OWNER)
        assert not is_masqueraded(of_address, OTHER)
        assert not is_masqueraded(wider, OWNER)
        assert not is_masqueraded(ip_interface(f"{of_address.ip + 1}/{of_address.network.prefixlen}"), OWNER)


def test_an_owner_with_a_long_name_is_found_again(node: Node) -> None:
    owner = Owner("n" * 100, "c" * 200, '"quoted"')
    with inside(node.path):
        masquerade([ADDRESS4], owner)
        saved = node.run(["nft", "list", "ruleset"]).stdout
        node.run(["nft", "flush", "ruleset"])
        node.run(["nft", "-f", "-"], stdin=saved)

        assert [(ADDRESS4, owner)] == masqueraded()
        assert is_masqueraded(ADDRESS4, owner)
        unmasquerade(owner)

    assert node.nft() == []


def test_an_address_taken_over_at_the_last_moment_is_not_taken_away(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between the look and the deletion, the address comes to another owner.
    with inside(node.path):
        masquerade([ADDRESS4], OWNER)
        act_before_commit(monkeypatch, lambda: masquerade([ADDRESS4], OTHER))

        unmasquerade(OWNER, [ADDRESS4])

        assert masqueraded() == [(ADDRESS4, OTHER)]


def test_a_pod_added_while_the_last_one_goes_keeps_its_table(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    other_address = ip_interface("10.99.0.6/24")
    with inside(node.path):
        masquerade([ADDRESS4], OWNER)
        act_before_commit(monkeypatch, lambda: masquerade([other_address], OTHER))

        unmasquerade(OWNER, [ADDRESS4])

        assert is_masqueraded(other_address, OTHER)
        unmasquerade(OTHER)

    assert node.nft() == []


def test_a_pod_removed_while_one_is_added_does_not_take_the_table_from_under_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = ip_interface("10.88.0.6/16")
    with inside(node.path):
        masquerade([ADDRESS4], OWNER)
        act_before_commit(monkeypatch, lambda: unmasquerade(OWNER))

        masquerade([address], OTHER)

        assert [(address, OTHER)] == masqueraded()


def test_a_rule_that_cannot_be_made_is_an_error_and_changes_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown_expression() -> object:
        return [(1, [(1, "no_such_expression")])]

    monkeypatch.setattr(masquerade_table, "masquerading", unknown_expression)

    with inside(node.path), pytest.raises(NetlinkError) as raised:
        masquerade([ADDRESS4], OWNER)

    assert raised.value.errno == errno.ENOENT
    assert "masquerade 10.88.0.5/16" in str(raised.value)
    assert node.nft() == []


@pytest.mark.slow("a hundred pods; test_cli_pods makes many at once in make test")
def test_a_hundred_pods_on_a_cold_node_are_all_masqueraded_and_all_go(node: Node) -> None:
    before = node.state()
    addresses = 'addresses = [ip_interface(f"10.88.1.{number}/16"), ip_interface(f"fd00:88::1:{number}/64")]\n'

    all_at_once(node, 100, SETUP, f'{addresses}masquerade(addresses, Owner("net", f"c{{number}}", "eth0"))')

    with inside(node.path):
        owners = masqueraded()
    rules = [entry["rule"]["chain"] for entry in node.nft() if "rule" in entry]
    assert {Owner("net", f"c{number}", "eth0") for number in range(100)} == {owner for _, owner in owners}
    assert len(owners) == 200
    assert {chain: rules.count(chain) for chain in rules} == {
        "subnet-10.88.0.0-16": 1,
        "subnet-fd00_88__-64": 1,
    }

    # Every other one without knowing its addresses.
    known = "addresses if number % 2 else ()"
    all_at_once(node, 100, SETUP, f'{addresses}unmasquerade(Owner("net", f"c{{number}}", "eth0"), {known})')

    node.assert_same_state(before)


@pytest.mark.slow("many changes at once; single ones are in make test")
def test_parallel_changes_never_lose_an_address(node: Node) -> None:
    # With so few at a time the table is removed and made again and again, while others count on it.
    work = """
owner = Owner("net", f"c{number}", "eth0")
address = ip_interface(f"10.{number % 3}.1.{number}/16")
for _ in range(40):
    masquerade([address], owner)
    assert is_masqueraded(address, owner)
    unmasquerade(owner, [address])
    assert not is_masqueraded(address, owner)
"""
    before = node.state()

    all_at_once(node, 4, SETUP, work)

    node.assert_same_state(before)


@pytest.mark.slow("many changes at once; single ones are in make test")
def test_parallel_changes_with_exceptions_leave_nothing(node: Node) -> None:
    """Two pods have the same exceptions, the third has others; another list comes with every turn."""
    setup = """
from ipaddress import ip_interface, ip_network
from firewall import masquerade_nft
from firewall.owner import Owner
from tests.node.firewall import unmasquerade, with_tables
masquerade, holds = with_tables(masquerade_nft.apply), with_tables(masquerade_nft.holds)
"""
    work = """
owner = Owner("net", f"c{number}", "eth0")
addresses = [ip_interface(f"10.88.1.{number}/16"), ip_interface(f"fd00:88::1:{number}/64")]
for turn in range(40):
    exceptions = [ip_network(f"10.{turn % 3}.{number // 2}.0/24"), ip_network("fd01::/16")]
    masquerade(owner, addresses, exceptions)
    assert holds(owner, addresses, exceptions)
    unmasquerade(owner, addresses if turn % 2 else ())
"""
    before = node.state()

    all_at_once(node, 3, setup, work)

    node.assert_same_state(before)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_the_last_of_a_subnet_goes_while_others_come(node: Node) -> None:
    """Two pods of one subnet come and go on a cold node: again and again one is the last while the other is added."""
    work = """
owner = Owner("net", f"c{number}", "eth0")
addresses = [ip_interface(f"10.88.1.{number}/16"), ip_interface(f"fd00:88::1:{number}/64")]
for turn in range(150):
    masquerade(addresses, owner)
    assert all(is_masqueraded(address, owner) for address in addresses)
    unmasquerade(owner, addresses if turn % 2 else ())
    assert not any(is_masqueraded(address, owner) for address in addresses)
masquerade(addresses, owner)
"""
    all_at_once(node, 2, SETUP, work)

    owners = [Owner("net", f"c{number}", "eth0") for number in range(2)]
    with inside(node.path):
        assert sorted(owners * 2) == sorted(owner for _, owner in masqueraded())
        unmasquerade(owners[0])
        left = node.filtering()
        unmasquerade(owners[1])
        assert node.nft() == []
        masquerade([ip_interface("10.88.1.1/16"), ip_interface("fd00:88::1:1/64")], owners[1])

    assert node.filtering() == left


def test_a_pod_added_between_the_look_and_the_removal_of_its_subnet_keeps_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = ip_interface("10.88.0.6/16")
    with inside(node.path):
        masquerade([ADDRESS4], OWNER)
        act_before_commit(monkeypatch, lambda: masquerade([address], OTHER))

        unmasquerade(OWNER, [ADDRESS4])

        assert [(address, OTHER)] == masqueraded()
        assert is_masqueraded(address, OTHER)


@pytest.mark.parametrize("known", [BOTH, []])
def test_more_addresses_than_a_comment_holds_all_go(node: Node, known: list[IPv4Interface | IPv6Interface]) -> None:
    many = [ip_interface(f"2001:db8:1111:2222:3333:4444:5555:{number:x}/64") for number in range(1, 9)]
    with inside(node.path):
        masquerade([ip_interface("10.88.0.6/16")], OTHER)
        before = node.filtering()
        masquerade([*BOTH, *many], OWNER)
        assert len(masqueraded()) == 11

        unmasquerade(OWNER, known)

    assert node.filtering() == before


def test_a_subnet_that_other_rules_use_stays_and_the_address_goes(node: Node) -> None:
    with inside(node.path):
        masquerade([ADDRESS4], OWNER)
        node.run(["nft", "add chain inet cni_harness_masquerade of_others"])
        rule = "counter name ip saddr map @subnet-10.88.0.0-16"
        node.run(["nft", f"add rule inet cni_harness_masquerade of_others {rule}"])

        unmasquerade(OWNER, [ADDRESS4])

        assert masqueraded() == []
        masquerade([ADDRESS4], OWNER)
        assert is_masqueraded(ADDRESS4, OWNER)


def test_lists_of_owners_that_have_nothing_any_more_are_removed(node: Node) -> None:
    with inside(node.path):
        masquerade([ADDRESS4], OTHER)
        before = node.filtering()
        masquerade([ADDRESS4], OWNER)
        masquerade([ADDRESS4], OTHER)
        assert node.filtering() != before

        remove_unused(module.collect)

    assert node.filtering() == before


def test_unread_answer_of_an_earlier_call_is_skipped(node: Node) -> None:
    with inside(node.path), Netfilter() as netfilter:
        table = masquerade_table.open_table(netfilter)
        module.apply(tables_of(netfilter), OWNER, BOTH)
        netfilter._send(table.uses_question().message)  # the answer is never read

        assert module.holds(tables_of(netfilter), OWNER, [ADDRESS4])
        assert netfilter.is_sound


def test_a_socket_with_a_dump_that_was_not_read_to_its_end_is_not_sound(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    class EndedError(BaseException):
        pass

    def ended(*_: object) -> None:
        raise EndedError

    with inside(node.path), Netfilter() as netfilter:
        module.apply(tables_of(netfilter), OWNER, BOTH)
        monkeypatch.setattr(Netfilter, "_receive", ended)
        with pytest.raises(EndedError):
            module.masqueraded(tables_of(netfilter))

        assert not netfilter.is_sound


def test_a_socket_that_has_lost_replies_is_not_sound(node: Node) -> None:
    with inside(node.path), Netfilter() as netfilter:
        module.apply(tables_of(netfilter), OWNER, BOTH)
        # As small as the kernel lets it be: the replies do not fit, which is ENOBUFS.
        netfilter._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        with pytest.raises(NetlinkError) as raised:
            netfilter.look_up(*[masquerade_table.open_table(netfilter).uses_question() for _ in range(100)])

        assert raised.value.errno == errno.ENOBUFS
        assert not netfilter.is_sound
