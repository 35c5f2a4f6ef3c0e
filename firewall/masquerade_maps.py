"""Masquerading as earlier releases did it: a map from addresses to verdicts. It is removed, and never made.

    table inet cni_harness {
        map masquerade4 { type ipv4_addr : verdict; elements = { 10.88.0.5 comment "…" : goto subnet-10.88.0.0-16 } }
        map masquerade6 { type ipv6_addr : verdict; }
        chain subnet-10.88.0.0-16 { ip daddr 10.88.0.0/16 return; masquerade; }
        chain postrouting {
            type nat hook postrouting priority srcnat
            ip daddr 224.0.0.0/4 return
            ip6 daddr ff00::/8 return
            ip saddr vmap @masquerade4
            ip6 saddr vmap @masquerade6
        }
    }

Nodes that were updated have this table until the last of those pods goes. Elsewhere each function is one look-up.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import ip_address, ip_interface

from firewall.masquerade_table import name_of, network_of
from firewall.owner import Owner
from firewall.tables import Address, Interface, Network, attempts
from lean.typing import Final
from netlink.nft_wire import INET, Element
from netlink.nftables import Hook, LookUp, Netfilter, Table

__all__ = ["is_masqueraded", "masqueraded", "presence", "release", "remove_unused", "unmasquerade"]

_TABLE: Final = "cni_harness"
_BASE_CHAIN = "postrouting"
_HOOK = Hook("nat", 4, 100)  # NF_INET_POST_ROUTING; priority srcnat
_MAPS = {4: "masquerade4", 6: "masquerade6"}
_RULES_OF_BASE = 4
_RULES_OF_SUBNET = 2
_OBJECTS_WITHOUT_SUBNETS = 3  # the maps and the base chain
_FEW_OBJECTS = 8


def presence(netfilter: Netfilter) -> LookUp[int]:
    """Ask whether the table is there."""
    return Table(netfilter, INET, _TABLE).uses_question()


def release(netfilter: Netfilter, addresses: Sequence[Interface]) -> None:
    """Remove the elements of `addresses`, whoever's they are. Raises NetlinkError."""
    table = Table(netfilter, INET, _TABLE)
    for element in _present(table, addresses).values():
        unmasquerade(netfilter, element.comment, [ip_interface(ip_address(element.key))])


def unmasquerade(netfilter: Netfilter, label: str, addresses: Sequence[Interface], *, search: bool = False) -> None:
    """Remove an owner's elements at `addresses`; none is fine. Raises NetlinkError.

    With `search`, and if not all of them are the owner's, all elements are read to find those that are. O(n).
    """
    doing = f"stop masquerading {', '.join(map(str, addresses)) or label}"
    table = Table(netfilter, INET, _TABLE)
    for _ in attempts(doing):
        generation, uses = table.generation_question(), table.uses_question()
        netfilter.look_up(generation, uses)
        present = _present(table, addresses)
        owned = {address: element for address, element in present.items() if element.comment == label}
        if search and (not addresses or len(owned) < len(addresses)):
            owned = _all(table, label)
        if not owned:
            # The elements may have been deleted by others, and their chains be left.
            if uses.found is not None and uses.found <= _FEW_OBJECTS:
                remove_unused(netfilter)
            return
        transaction = table.transaction()
        for address, element in owned.items():
            transaction.delete_elements(_MAPS[address.version], [element])
        # The guard keeps the look true: the element must still be this owner's when it is deleted.
        if table.try_commit(transaction, doing, generation=generation.found):
            _remove_unused(table, {element.chain for element in owned.values()})
            return


def masqueraded(netfilter: Netfilter) -> list[tuple[Interface, str]]:
    """Return the addresses that are masqueraded, with their subnets' prefixes, and their owners' labels. O(n)."""
    found = []
    for address, element in _all(Table(netfilter, INET, _TABLE)).items():
        with suppress(ValueError):  # another's chain
            found.append((ip_interface((address, network_of(element.chain).prefixlen)), element.comment))
    return found


def remove_unused(netfilter: Netfilter) -> None:
    """Remove chains that no element leads to, and the table if nothing else is in it. Raises NetlinkError."""
    table = Table(netfilter, INET, _TABLE)
    _remove_unused(table, _subnets(table))


def is_masqueraded(netfilter: Netfilter, address: Interface, owner: Owner) -> bool:
    """Tell whether `address` is masqueraded for `owner`, rules included. Raises NetlinkError."""
    table = Table(netfilter, INET, _TABLE)
    element = table.element(_MAPS[address.version], address.ip.packed)
    if element != Element(address.ip.packed, owner.label(), name_of(address.network)):
        return False
    # Nothing leads to a base chain, so its uses are its rules; and as those use the maps, the maps exist.
    base = table.chain(_BASE_CHAIN)
    if base is None or base.hook != _HOOK or base.uses < _RULES_OF_BASE:
        return False
    return len(table.rules(element.chain)) >= _RULES_OF_SUBNET


def _remove_unused(table: Table, chains: Iterable[str]) -> None:
    # The kernel decides: it refuses to delete a chain or set that has come into use since the look-up.
    for chain in chains:
        if table.is_unused(chain):
            transaction = table.transaction()
            transaction.delete_chain(chain)
            table.try_commit(transaction, f"delete chain {chain}")
    uses = table.uses()
    if uses is not None and uses <= _OBJECTS_WITHOUT_SUBNETS:
        table.remove_if_empty({_BASE_CHAIN}, _MAPS.values())


def _present(table: Table, addresses: Iterable[Interface]) -> dict[Address, Element]:
    found = {address.ip: table.element(_MAPS[address.version], address.ip.packed) for address in addresses}
    return {address: element for address, element in found.items() if element}


def _all(table: Table, comment: str = "") -> dict[Address, Element]:
    return {ip_address(element.key): element for name in _MAPS.values() for element in table.elements(name, comment)}


def _subnets(table: Table) -> dict[str, Network]:
    """Return the networks of the table's chains."""
    subnets = {}
    for name in table.chains():
        with suppress(ValueError):  # another's chain
            subnets[name] = network_of(name)
    return subnets
