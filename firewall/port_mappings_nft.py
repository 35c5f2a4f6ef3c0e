"""Ports of the host that lead to pods: one element of a map for each port and family.

    table inet cni_harness_portmap {
        counter attachments { packets 0 bytes 0 }
        map owners {
            type ifname : counter
            elements = { "b5bb9d8014a0f9b" comment "0 8080/tcp4 masquerade@10.88.0.5%cni0" : "attachments" }
        }
        map ports4 {
            type inet_proto . inet_service : ipv4_addr . inet_service
            elements = { tcp . 8080 comment "…" : 10.88.0.5 . 80 }
        }
        map address_ports4 { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service }
        set masquerade4 { type ipv4_addr . ifname; elements = { 10.88.0.5 . "cni0" comment "…" } }
        set masquerade_all4 { type ipv4_addr . ifname }
        … the same for IPv6 …
        chain prerouting { type nat hook prerouting priority dstnat; fib daddr type local jump forward_ports }
        chain output { type nat hook output priority dstnat; fib daddr type local jump forward_ports }
        chain forward_ports {
            meta nfproto ipv4 dnat ip to ip daddr . meta l4proto . th dport map @address_ports4
            meta nfproto ipv4 dnat ip to meta l4proto . th dport map @ports4
            …
        }
        chain postrouting {
            type nat hook postrouting priority srcnat
            meta nfproto ipv4 ct status dnat ip daddr . iifname @masquerade4 masquerade
            meta nfproto ipv4 ct status dnat ip daddr . oifname @masquerade_all4 masquerade
            meta nfproto ipv4 ct status dnat iif 0 fib saddr type != local ip daddr . oifname @masquerade4 masquerade
            …
            meta nfproto ipv4 ct status dnat ip saddr 127.0.0.0/8 ip daddr . oifname @masquerade4 masquerade
        }
    }

Only packets for the host's own addresses are rewritten: a packet that is forwarded to another machine's port of that
number passes. The cost of adding or removing a port does not grow with the number of pods: insertions into hash
tables. (With a chain or a verdict for each pod, the kernel checks all of them for loops at every commit.)

The table is made for the first pod and removed with the last. A network with conditions has a table of its own, whose
first two chains have these conditions. If other programs flush or delete rules and chains, the next pod restores them.
"""

import errno

from fast_stdlib.typing import Collection, Iterable
from firewall.owner import Owner
from firewall.port_mapping import ForwardedPort, Forwarding
from firewall.port_mappings_elements import (
    OBJECTS,
    ElementPlace,
    SeenPorts,
    general_place,
    is_elsewhere,
    is_stale,
    listing,
    mapping_in,
    open_table,
    parts_behind,
    place_of,
    refuse_rivals,
    refuse_taken,
    words,
)
from firewall.tables import OWNERS, Tables, attempts, owner_key
from netlink.netfilter import Netfilter
from netlink.nft_transaction import Transaction
from netlink.nft_wire import Element
from netlink.nftables import LOST_RACES, NftTable
from skel.steps import Steps


def apply(tables: Tables, owner: Owner, forwarding: Forwarding) -> None:
    """Lead the ports to the pod; existing elements stay, and the owner's other elements go.

    Raises OSError, and CniError if another container has one of the ports: `remove` cleans up after either.
    """
    from firewall.port_mappings_rules import add_conditions, is_whole, restore

    doing = f"forward ports to {owner.container_id}"
    netfilter = tables.netfilter()
    table = _table(netfilter, owner, forwarding)
    wanted = words(forwarding)
    is_damaged = has_lost = is_guarded = False
    for _ in attempts(doing):
        seen = _look(netfilter, table, owner, forwarding, wanted)
        refuse_taken(table, seen, owner, forwarding)
        is_damaged = has_lost or not is_whole(table, seen, forwarding.conditions)
        transaction = table.transaction()
        if is_damaged:
            restore(transaction, seen, guards=not forwarding.conditions)
        _change(transaction, seen, owner, wanted)
        if not transaction.messages:
            return
        # If a transaction makes all objects that it needs, "no such object" means that the kernel lacks a feature.
        lost_races = LOST_RACES - {errno.ENOENT} if is_damaged and seen.uses is None else LOST_RACES
        # A port of one address and the same port of all are in two maps, so the kernel does not see that they clash.
        is_guarded = any(mapping.host_address for mapping in forwarding.mappings) or (is_damaged and bool(seen.uses))
        if table.try_commit(transaction, doing, lost_races, seen.generation if is_guarded else None):
            break
        has_lost = not is_damaged
    # Without a guard, another ADD may have taken the port of a single address since the look-up.
    if not is_guarded:
        refuse_rivals(table, owner, forwarding)
    if forwarding.conditions and is_damaged:
        add_conditions(tables, table.name, forwarding.conditions)


def refuse_clashes(tables: Tables, owner: Owner, forwarding: Forwarding) -> None:
    """Raise CniError (999) if another container of a network without conditions has one of the ports; NetlinkError."""
    netfilter = tables.netfilter()
    table = open_table(netfilter)
    if table.uses() is not None:
        refuse_taken(table, _look(netfilter, table, owner, forwarding, words(forwarding)), owner, forwarding)


def remove(tables: Tables, owner: Owner, _: Forwarding | None = None) -> list[ForwardedPort]:
    """Remove the owner's elements, and the table with the last; none is fine. Return the removed mappings.

    Raises NetlinkError.
    """
    netfilter = tables.netfilter()
    with Steps() as steps:
        removed: list[ForwardedPort] = []
        for table in _own_tables(netfilter, owner.network):
            removed += steps.take(_remove, netfilter, table, owner) or ()
    return removed


def holds(tables: Tables, owner: Owner, forwarding: Forwarding, *, earlier: bool = False) -> bool:
    """Tell whether `apply` is in force for these ports, rules included; with `earlier`, that of a version before.

    Raises NetlinkError.
    """
    from firewall.port_mappings_rules import is_whole

    netfilter = tables.netfilter()
    table = _table(netfilter, owner, forwarding)
    wanted = words(forwarding)
    seen = SeenPorts(netfilter, table, owner, wanted)
    listed = set(seen.words())
    return is_whole(table, seen, forwarding.conditions, earlier=earlier) and all(
        (element := seen.elements.get(place_of(word)))
        and (is_elsewhere(element, owner) or (element.value == value and word in listed))
        for word, value in wanted.items()
    )


def collect(tables: Tables, network: str, valid: Collection[Owner]) -> None:
    """Remove the elements of the network's owners that are not in `valid`, and a table without owners. O(n).

    Raises NetlinkError, and CniError for several errors.
    """
    netfilter = tables.netfilter()
    with Steps() as steps:
        for table in _own_tables(netfilter, network):
            owners = {owner for _, owner in _forwarded(table)}
            for owner in owners:
                if owner.in_network(network) and owner not in valid:
                    steps.take(_remove, netfilter, table, owner)
            # Lists of owners whose elements another program has removed.
            steps.take(_remove_unused, table)


def forwarded(tables: Tables) -> list[tuple[ForwardedPort, Owner]]:
    """Return the ports of all networks without conditions, and their owners. O(n). Raises NetlinkError."""
    return [(mapping, owner) for mapping, owner in _forwarded(open_table(tables.netfilter())) if mapping]


def _table(netfilter: Netfilter, owner: Owner, forwarding: Forwarding) -> NftTable:
    return open_table(netfilter, owner.network if forwarding.conditions else "")


def _own_tables(netfilter: Netfilter, network: str) -> list[NftTable]:
    return [open_table(netfilter), open_table(netfilter, network)]


def _look(
    netfilter: Netfilter, table: NftTable, owner: Owner, forwarding: Forwarding, wanted: Iterable[str]
) -> SeenPorts:
    seen = SeenPorts(netfilter, table, owner, wanted)
    seen.look(general_place(mapping) for mapping in forwarding.mappings if mapping.host_address)
    return seen


def _change(transaction: Transaction, seen: SeenPorts, owner: Owner, wanted: dict[str, bytes]) -> None:
    """Add the wanted elements that are missing, and remove the owner's others."""
    label = owner.label()
    places = {place_of(word): word for word in wanted}
    elements = {
        place: Element(place.key, label, value=wanted[word])
        for place, word in places.items()
        if not (
            (present := seen.elements.get(place))
            and is_elsewhere(present, owner)
            and not is_stale(present, wanted[word])
        )
    }
    for place, present in seen.elements.items():
        if (place in elements and present != elements[place]) or (place not in places and present.comment == label):
            transaction.delete_elements(place.name, [present])
    added: dict[str, list[Element]] = {}
    for place, element in elements.items():
        if seen.elements.get(place) != element:
            added.setdefault(place.name, []).append(element)
    for name, missing in added.items():
        transaction.add_elements(name, missing)
    listed = listing(owner, [places[place] for place in elements])
    if listed != seen.listed:
        if seen.listed:
            transaction.delete_elements(OWNERS, seen.listed)
        transaction.add_elements(OWNERS, listed)


def _remove(netfilter: Netfilter, table: NftTable, owner: Owner) -> list[ForwardedPort]:
    doing = f"stop forwarding ports to {owner.container_id}"
    label = owner.label()
    for _ in attempts(doing):
        seen = SeenPorts(netfilter, table, owner)
        if not seen.listed:
            return []
        own = {place: element for place, element in seen.elements.items() if element.comment == label}
        transaction = table.transaction()
        if seen.attachments == len(seen.listed) and seen.uses == OBJECTS:
            transaction.delete_table(contents=True)
        else:
            for place, element in own.items():
                transaction.delete_elements(place.name, [element])
            transaction.delete_elements(OWNERS, seen.listed)
        # The guard makes the commit fail if the elements are no longer this owner's, or if there are new ones.
        if table.try_commit(transaction, doing, {errno.ERESTART}, seen.generation):
            return [mapping for place, element in own.items() if (mapping := mapping_in(place, element.value))]
    return []


def _forwarded(table: NftTable) -> list[tuple[ForwardedPort | None, Owner]]:
    if table.uses() is None:
        return []
    found = []
    for name in set(table.sets()) - {OWNERS}:
        for element in table.elements(name):
            owner = Owner.from_label(element.comment)
            if owner:
                found.append((mapping_in(ElementPlace(name, element.key), element.value), owner))
    return found


def _remove_unused(table: NftTable) -> None:
    """Remove lists of owners without elements, and a table of which no element has an owner. O(n)."""
    doing = f"remove unused parts of table {table.name}"
    for _ in attempts(doing):
        generation, uses = table.generation(), table.uses()
        labels = {owner.label() for _, owner in _forwarded(table)}
        transaction = table.transaction()
        if uses == OBJECTS and not labels:
            transaction.delete_table(contents=True)
        elif uses:
            lists = {element.key: element for element in table.elements(OWNERS)}
            firsts = [lists[key] for label in labels if (key := owner_key(label)) in lists]
            counts = {element.key: parts_behind(element) for element in firsts}
            used = {owner_key(label, part) for label in labels for part in range(counts.get(owner_key(label), 0) + 1)}
            for key, element in lists.items():
                if key not in used:
                    transaction.delete_elements(OWNERS, [element])
        if not transaction.messages or table.try_commit(transaction, doing, {errno.ERESTART}, generation):
            return
