"""Masquerading of pods' traffic that leaves their subnet: one element of a map for each address.

    table inet cni_harness_masquerade {
        set owners { type ifname; elements = { "b5bb9d8014a0f9b" comment "10.88.0.5/16" } }
        counter subnet-10.88.0.0-16 { packets 0 bytes 0 }
        map subnet-10.88.0.0-16 {
            type ipv4_addr : counter
            elements = { 10.88.0.5 comment "…" : "subnet-10.88.0.0-16" }
        }
        chain subnet-10.88.0.0-16 {
            type nat hook postrouting priority srcnat
            ip daddr != 224.0.0.0/4 ip daddr != 10.88.0.0/16 counter name ip saddr map @subnet-10.88.0.0-16 masquerade
        }
    }

The cost of adding or removing an address does not grow with the number of pods: an insertion into a hash table. (With a
map to verdicts, the kernel checks all elements for loops at every commit.) The kernel counts the elements that refer to
a counter, so the subnet's last address is known without a listing. The set of owners, keyed by a hash of the label,
lists the addresses of each: DEL finds them without a result of ADD.

A subnet's objects are made with its first address and removed with its last, the table with its last subnet. If other
programs flush or delete rules and chains, the next address restores them.

Addresses with exceptions have a map, a counter and a chain of their own, `subnet-10.88.0.0-16-HASH`. In the rule,
`ip daddr != @except-10.88.0.0-16-HASH` is before the counter. HASH is that of the list, so a network with a new list of
exceptions gets new objects, and earlier addresses keep theirs. The set of owners has `10.88.0.5/16-HASH`.
"""

import errno
from collections import defaultdict

from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import Collection, Final, Iterable, Mapping, Sequence
from firewall.masquerade_table import PodAddress, SeenMasquerade, Subnet, Subnets, digest_of, intervals
from firewall.owner import Owner
from firewall.tables import COMMENT_MAX, OWNERS, Interface, Network, Tables, attempts, owner_key
from netlink.nft_transaction import Transaction
from netlink.nft_wire import Element
from netlink.nftables import LOST_RACES
from netlink.wire import NetlinkError
from skel.steps import Steps

_MORE: Final = "..."
"""Replaces a list of addresses that is too long for the comment of an owner's element: search all elements."""


def apply(tables: Tables, owner: Owner, addresses: Sequence[Interface], exceptions: Sequence[Network] = ()) -> None:
    """Masquerade traffic from `addresses` to anywhere but their subnets, multicast and `exceptions`.

    Existing rules stay. Another owner's leftover element for one of `addresses` is replaced, and an element with other
    exceptions. Raises NetlinkError.
    """
    if not addresses:
        return
    doing = f"masquerade {', '.join(map(str, addresses))}"
    wanted = {
        each: Element(each.address.ip.packed, owner.label(), counter=each.subnet.name)
        for each in _with_exceptions(addresses, exceptions)
    }
    netfilter = tables.netfilter()
    subnets = Subnets(netfilter)
    has_lost = False
    for _ in attempts(doing):
        seen = SeenMasquerade(netfilter, owner, wanted, chains=True)
        is_damaged = has_lost or not all(subnets.is_whole(*each) for each in seen.chains.items())
        transaction = subnets.table.transaction()
        if is_damaged:
            subnets.restore(transaction, seen, _by_digest(exceptions))
        # More objects than those of these subnets and the set of owners: another subnet may have the address, too.
        if seen.uses is not None and (is_damaged or seen.uses != sum(each.objects for each in seen.chains) + 1):
            for name, element in subnets.elsewhere(wanted):
                transaction.delete_elements(name, [element])
        _add(transaction, owner, wanted, seen)
        if not transaction.messages:
            break
        # If a transaction makes all objects that it needs, "no such object" means that the kernel lacks a feature.
        # Other transactions may get it after the last pod's DEL. Such a failure costs 10 ms, but a guard would fail
        # after any change.
        lost_races = LOST_RACES - {errno.ENOENT} if is_damaged else LOST_RACES
        is_guarded = is_damaged and bool(seen.uses is not None or seen.elements or seen.listed)
        if subnets.table.try_commit(transaction, doing, lost_races, seen.generation if is_guarded else None):
            break
        has_lost = not is_damaged


def remove(tables: Tables, owner: Owner, addresses: Sequence[Interface] = ()) -> None:
    """Remove all elements that `apply` made for `owner`; no elements are fine. Raises NetlinkError.

    The table lists the owner's addresses. If `addresses` names them, one system call less is needed.
    """
    doing = f"stop masquerading {', '.join(map(str, addresses)) or owner.label()}"
    netfilter = tables.netfilter()
    subnets = Subnets(netfilter)
    known = dict.fromkeys(map(PodAddress, addresses))
    is_removable = True
    for _ in attempts(doing):
        seen = SeenMasquerade(netfilter, owner, known)
        told = _told(subnets, owner, seen.listed)
        if not told.keys() <= known.keys():
            known |= told
            continue
        owned = [each for each, element in seen.elements.items() if element.comment == owner.label()]
        transaction = subnets.table.transaction()
        for each in owned:
            transaction.delete_elements(each.subnet.name, [seen.elements[each]])
        if seen.listed:
            transaction.delete_elements(OWNERS, [seen.listed])
        emptied = _emptied(seen, owned) if is_removable else []
        if emptied:
            subnets.remove(transaction, emptied)
        # The guard makes the commit fail if the elements are no longer this owner's, or if a subnet has new elements.
        try:
            if not transaction.messages:
                break
            if subnets.table.try_commit(transaction, doing, {errno.ERESTART}, seen.generation):
                break
        except NetlinkError:
            if not emptied:
                raise
            is_removable = False  # other rules use the subnet's objects


def holds(tables: Tables, owner: Owner, addresses: Sequence[Interface], exceptions: Sequence[Network] = ()) -> bool:
    """Tell whether `apply` is in force for `addresses` and `owner`, rules included. Raises NetlinkError."""
    netfilter = tables.netfilter()
    wanted = _with_exceptions(addresses, exceptions)
    subnets, seen = Subnets(netfilter), SeenMasquerade(netfilter, owner, wanted, chains=True)
    return all(
        (element := seen.elements.get(each))
        and element.comment == owner.label()
        and subnets.is_whole(each.subnet, seen.chains[each.subnet])
        for each in wanted
    )


def collect(tables: Tables, network: str, valid: Collection[Owner]) -> None:
    """Remove the network's elements whose owner is not in `valid`, and all rules without elements. O(n).

    Raises NetlinkError, and CniError for several errors.
    """
    stale: dict[Owner, list[Interface]] = defaultdict(list)
    for address, owner in masqueraded(tables):
        if owner.in_network(network) and owner not in valid:
            stale[owner].append(address)
    with Steps() as steps:
        for owner, addresses in stale.items():
            steps.take(remove, tables, owner, addresses)
        steps.take(_remove_unused, tables)


def masqueraded(tables: Tables) -> list[tuple[Interface, Owner]]:
    """Return the addresses that are masqueraded, with their subnets' prefixes, and their owners. O(n).

    Raises NetlinkError.
    """
    subnets = Subnets(tables.netfilter())
    elements = [
        (PodAddress.from_element(element, subnet).address, element.comment)
        for subnet in subnets.listed()
        for element in subnets.table.elements(subnet.name)
    ]
    owners = [(address, Owner.from_label(label)) for address, label in elements]
    return [(address, owner) for address, owner in owners if owner]


def _remove_unused(tables: Tables) -> None:
    """Remove the rules of subnets and the lists of owners without addresses, and the table if it is empty. O(n)."""
    doing = "remove the rules that no address needs"
    subnets = Subnets(tables.netfilter())
    table = subnets.table
    for _ in attempts(doing):
        generation = table.generation()
        counters = subnets.counters(subnets.listed())
        in_use = {owner_key(element.comment) for subnet in counters for element in table.elements(subnet.name)}
        transaction = table.transaction()
        for listed in table.elements(OWNERS):
            if listed.key not in in_use:
                transaction.delete_elements(OWNERS, [listed])
        unused = [subnet for subnet, count in counters.items() if not count]
        if unused or not counters:
            subnets.remove(transaction, unused)
        if not transaction.messages or table.try_commit(transaction, doing, generation=generation):
            break


def _by_digest(exceptions: Sequence[Network]) -> dict[str, list[Element]]:
    """Return the intervals of each family by their hash; "" for none."""
    both = [intervals(exceptions, version) for version in (4, 6)]
    return {digest_of(elements): elements for elements in both}


def _with_exceptions(addresses: Iterable[Interface], exceptions: Sequence[Network]) -> list[PodAddress]:
    if not exceptions:
        return list(map(PodAddress, addresses))
    digests = {version: digest_of(intervals(exceptions, version)) for version in (4, 6)}
    return [PodAddress(address, digests[address.version]) for address in addresses]


def _add(transaction: Transaction, owner: Owner, wanted: Mapping[PodAddress, Element], seen: SeenMasquerade) -> None:
    for each, element in wanted.items():
        if seen.elements.get(each) == element:
            continue
        if each in seen.elements:
            transaction.delete_elements(element.counter, [element])
        transaction.add_elements(element.counter, [element])
    listed = _listing(owner, wanted, seen.listed)
    if listed != seen.listed:
        if seen.listed:
            transaction.delete_elements(OWNERS, [listed])
        transaction.add_elements(OWNERS, [listed])


def _listing(owner: Owner, addresses: Iterable[PodAddress], present: Element | None) -> Element:
    """Return the element that lists the owner's addresses, including those of `present` with their exceptions."""
    already = present.comment.split() if present else []
    comment = " ".join(dict.fromkeys([*already, *map(str, addresses)]))
    return Element(owner_key(owner.label()), comment if len(comment) <= COMMENT_MAX and _MORE not in already else _MORE)


def _told(subnets: Subnets, owner: Owner, listed: Element | None) -> dict[PodAddress, None]:
    """Return the addresses that an owner's element lists."""
    if listed is None:
        return {}
    if listed.comment == _MORE:
        return {
            PodAddress.from_element(element, subnet): None
            for subnet in subnets.listed()
            for element in subnets.table.elements(subnet.name, owner.label())
        }
    told: dict[PodAddress, None] = {}
    for each in listed.comment.split():
        with suppress(ValueError):  # written by another program
            told[PodAddress.from_text(each)] = None
    return told


def _emptied(seen: SeenMasquerade, owned: Iterable[PodAddress]) -> list[Subnet]:
    """Return the subnets that have no other elements than `owned`."""
    going: dict[Subnet, int] = defaultdict(int)
    for each in owned:
        going[each.subnet] += 1
    return [subnet for subnet, count in seen.counters.items() if count is not None and count == going[subnet]]
