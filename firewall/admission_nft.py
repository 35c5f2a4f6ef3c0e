"""Admission of pods by nftables: one element of a set for each address.

    table inet cni_harness_firewall {
        counter attachments { … }
        map owners { type ifname : counter; elements = { "b5bb9d8014a0f9b" comment "10.88.0.5" : "attachments" } }
        set pods4 { type ipv4_addr; elements = { 10.88.0.5 comment "net/id/eth0" } }
        set pods6 { type ipv6_addr; … }
        map members { type ifname : counter; … }
        set bridges { type ifname; elements = { "cni0" } }
        set same_bridge { type ifname . ifname; elements = { "cni0" . "cni0" } }
        chain admin { }
        chain forward {
            type filter hook forward priority filter
            jump admin
            iifname @bridges oifname @bridges iifname . oifname != @same_bridge drop
            ip daddr @pods4 ct state established,related accept
            ip saddr @pods4 accept
            … the same for pods6
        }
    }
    table bridge cni_harness_firewall {
        set isolated_ports { type ifname; elements = { "veth1" comment "net/id/eth0" } }
        chain forward { type filter hook forward priority filter; iifname @isolated_ports drop; oifname … drop }
    }

The cost of a pod does not grow with their number. The owners' map lists the addresses of each, for every backend: DEL
finds them without a result of ADD, and GC without a configuration. `members` says which bridge's policy a pod has; the
kernel counts the pods of each policy. The chain `admin` is the administrators': the tables go with the last pod, unless
it has rules.
"""

import errno

from fast_stdlib.contextlib import suppress
from fast_stdlib.ipaddress import ip_address, ip_interface
from fast_stdlib.typing import Final, Iterable, Sequence
from firewall.admission_table import (
    ATTACHMENTS,
    BRIDGES,
    ISOLATED,
    MEMBERS,
    OBJECTS,
    PODS,
    PORTS,
    PORTS_HOOK,
    SAME,
    SAME_BRIDGE,
    Admission,
    Ingress,
    SeenAdmission,
    counter_name,
    name_key,
    open_table,
    pair_key,
    restore,
    restore_ports,
)
from firewall.owner import Owner
from firewall.tables import COMMENT_MAX, OWNERS, Address, Interface, Tables, attempts, demand_bridge_family, owner_key
from netlink.nft_transaction import Transaction
from netlink.nft_wire import Element
from netlink.nftables import LOST_RACES
from netlink.wire import NetlinkError

_MORE: Final = "..."
"""Replaces a list of addresses that is too long for a comment: search all elements."""


def apply(tables: Tables, owner: Owner, admission: Admission) -> None:
    """Admit the addresses and restrict the ingress. Raises NetlinkError.

    Existing elements and rules stay. Another owner's leftover elements are replaced.
    """
    if not admission.addresses:
        return
    netfilter, ingress = tables.netfilter(), admission.ingress
    addresses = _without_length(admission.addresses)
    doing = f"admit {', '.join(map(str, addresses))}"
    for _ in attempts(doing):
        seen = SeenAdmission(netfilter, owner, addresses, ingress)
        transaction = seen.table.transaction()
        is_damaged = not seen.is_whole()
        if is_damaged:
            restore(transaction, seen.base)
        for ip in addresses:
            element = Element(ip.packed, owner.label())
            _put(transaction, PODS[ip.version], element, seen.pods.get(ip))
        listing = _listing(addresses)
        _put(transaction, OWNERS, Element(owner_key(owner.label()), listing, counter=ATTACHMENTS), seen.listed)
        if ingress:
            _restrict(transaction, owner, ingress, seen)
            if ingress.policy == ISOLATED and ingress.port:
                _isolate(transaction, owner, ingress, seen)
        if not transaction.messages:
            break
        # If a transaction makes all objects that it needs, "no such object" means that the kernel lacks a feature.
        is_guarded = (is_damaged and seen.uses is not None) or ingress is not None
        lost_races = LOST_RACES if seen.uses is not None else LOST_RACES - {errno.ENOENT}
        try:
            is_done = seen.table.try_commit(transaction, doing, lost_races, seen.generation if is_guarded else None)
        except NetlinkError:
            _demand_ports(tables, ingress, seen, doing)
            raise
        if is_done:
            break
        _demand_ports(tables, ingress, seen, doing)


def remove(tables: Tables, owner: Owner, _admission: Admission) -> None:
    """Remove all elements of the owner; no elements are fine. Raises NetlinkError."""
    netfilter = tables.netfilter()
    addresses: dict[Address, None] = {}
    ingress = None
    doing = f"remove the admission of {owner.label()}"
    for _ in attempts(doing):
        seen = SeenAdmission(netfilter, owner, addresses, ingress)
        known = _known(tables, owner, seen)
        told = _ingress_in(seen.member)
        if not known.keys() <= addresses.keys() or told != ingress:
            # The owner's elements name more to look at: these answers are not of one moment.
            addresses |= known
            ingress = told
            continue
        owned = [ip for ip, element in seen.pods.items() if element.comment == owner.label()]
        if not owned and not seen.listed and not seen.member:
            break
        transaction = seen.table.transaction()
        if ingress and seen.port and seen.port.comment == owner.label():
            _release_port(transaction, ingress, seen)
        # Nothing but this attachment: no rules of administrators, and no other objects.
        is_ours = seen.uses == OBJECTS + (len(seen.counts) if ingress else 0) and seen.admin and seen.admin.uses <= 1
        if is_ours and seen.listed and seen.count == 1:
            transaction.delete_table(contents=True)
        else:
            for ip in owned:
                transaction.delete_elements(PODS[ip.version], [Element(ip.packed)])
            if seen.listed:
                transaction.delete_elements(OWNERS, [seen.listed])
            if ingress and seen.member:
                _release(transaction, seen.member, ingress, seen)
        if seen.table.try_commit(transaction, doing, LOST_RACES, seen.generation):
            break


def holds(tables: Tables, owner: Owner, admission: Admission) -> bool:
    """Tell whether the rules are there and the owner's elements for all the addresses. Raises NetlinkError."""
    addresses = _without_length(admission.addresses)
    seen = SeenAdmission(tables.netfilter(), owner, addresses)
    return (
        seen.is_whole()
        and seen.listed is not None
        and all((found := seen.pods.get(ip)) is not None and found.comment == owner.label() for ip in addresses)
    )


def restricts(tables: Tables, owner: Owner, ingress: Ingress) -> bool:
    """Tell whether the policy is in force for the owner. Raises NetlinkError."""
    seen = SeenAdmission(tables.netfilter(), owner, (), ingress)
    if not seen.is_whole() or not seen.bridge or _ingress_in(seen.member) != ingress:
        return False
    if ingress.policy == SAME_BRIDGE:
        return seen.same is not None or ISOLATED in seen.counts
    if not ingress.port:
        return seen.same is None
    is_isolated = seen.port is not None and seen.port.comment == owner.label()
    return seen.same is None and is_isolated and seen.has_port_rules()


def addresses_of(tables: Tables, owner: Owner) -> list[Interface]:
    """Return the addresses that the table lists for an owner, without their networks. Raises NetlinkError."""
    seen = SeenAdmission(tables.netfilter(), owner, ())
    return [ip_interface(ip) for ip in _known(tables, owner, seen)]


def others(tables: Tables, owner: Owner, addresses: Sequence[Interface]) -> list[Interface]:
    """Return the addresses that are another owner's by now. Raises NetlinkError."""
    seen = SeenAdmission(tables.netfilter(), owner, _without_length(addresses))
    return [each for each in addresses if (found := seen.pods.get(each.ip)) and found.comment != owner.label()]


def admitted(tables: Tables) -> list[tuple[Interface, Owner]]:
    """Return the addresses in the table, and their owners. O(n). Raises NetlinkError."""
    table = open_table(tables.netfilter())
    elements = [element for name in PODS.values() for element in table.elements(name)]
    owners = [(element, Owner.from_label(element.comment)) for element in elements]
    return [(ip_interface(ip_address(element.key)), owner) for element, owner in owners if owner]


def _restrict(transaction: Transaction, owner: Owner, ingress: Ingress, seen: SeenAdmission) -> None:
    """Make the pod a member of its bridge, and the bridge restricted."""
    name = counter_name(ingress)
    if ingress.policy not in seen.counts:
        transaction.add_counter(name)
    comment = " ".join(ingress)
    member = Element(owner_key(owner.label()), comment.rstrip(), counter=name)
    _put(transaction, MEMBERS, member, seen.member)
    if not seen.bridge:
        transaction.add_elements(BRIDGES, [Element(name_key(ingress.bridge))])
    pair = Element(pair_key(ingress.bridge))
    if ingress.policy == ISOLATED and seen.same:
        transaction.delete_elements(SAME, [pair])
    if ingress.policy == SAME_BRIDGE and not seen.same and ISOLATED not in seen.counts:
        transaction.add_elements(SAME, [pair])


def _release(transaction: Transaction, member: Element, ingress: Ingress, seen: SeenAdmission) -> None:
    """Take a pod from its bridge; with the last pod of a policy, the policy."""
    transaction.delete_elements(MEMBERS, [member])
    if seen.counts.get(ingress.policy) != 1:
        return
    transaction.delete_counter(counter_name(ingress))
    others = seen.counts.keys() - {ingress.policy}
    pair = Element(pair_key(ingress.bridge))
    if SAME_BRIDGE in others and not seen.same:
        transaction.add_elements(SAME, [pair])
    if SAME_BRIDGE not in others and seen.same:
        transaction.delete_elements(SAME, [pair])
    if not others and seen.bridge:
        transaction.delete_elements(BRIDGES, [seen.bridge])


def _isolate(transaction: Transaction, owner: Owner, ingress: Ingress, seen: SeenAdmission) -> None:
    """Drop frames between the pod's port and the bridge's other ports, in the same transaction."""
    ports = seen.ports.transaction()
    if not seen.has_port_rules():
        restore_ports(ports, seen.ports_base)
    _put(ports, PORTS, Element(name_key(ingress.port), owner.label()), seen.port)
    transaction.messages += ports.messages


def _demand_ports(tables: Tables, ingress: Ingress | None, seen: SeenAdmission, doing: str) -> None:
    """Raise NetlinkError if a change has failed because the kernel cannot filter between the ports of a bridge."""
    if ingress and ingress.policy == ISOLATED and ingress.port and seen.ports_base is None:
        demand_bridge_family(tables, PORTS_HOOK, f'ingressPolicy "{ISOLATED}": {doing}')


def _release_port(transaction: Transaction, ingress: Ingress, seen: SeenAdmission) -> None:
    ports = seen.ports.transaction()
    key = name_key(ingress.port)
    if all(element.key == key for element in seen.ports.elements(PORTS)):
        ports.delete_table(contents=True)
    else:
        ports.delete_elements(PORTS, [Element(key)])
    transaction.messages += ports.messages


def _put(transaction: Transaction, name: str, element: Element, present: Element | None) -> None:
    if present == element:
        return
    if present:
        transaction.delete_elements(name, [present])
    transaction.add_elements(name, [element])


def _known(tables: Tables, owner: Owner, seen: SeenAdmission) -> dict[Address, None]:
    """Return the addresses that the owner's element lists."""
    if seen.listed is None:
        return {}
    if seen.listed.comment == _MORE:
        return {address.ip: None for address, each in admitted(tables) if each == owner}
    known: dict[Address, None] = {}
    for word in seen.listed.comment.split():
        with suppress(ValueError):  # written by another program
            known[ip_address(word)] = None
    return known


def _listing(addresses: Iterable[Address]) -> str:
    comment = " ".join(map(str, addresses))
    return comment if len(comment) <= COMMENT_MAX else _MORE


def _ingress_in(member: Element | None) -> Ingress | None:
    """Return the policy that a member's element names."""
    words = member.comment.split(" ") if member else []
    return Ingress(*words) if len(words) in {2, 3} else None


def _without_length(addresses: Sequence[Interface]) -> list[Address]:
    return list(dict.fromkeys(address.ip for address in addresses))
