"""Masquerading in the form of earlier releases: a map from addresses to verdicts. It is removed, and never made.

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

An updated node has this table until the last pod of the earlier release goes. On other nodes `presence` is the only
look-up.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address, ip_interface

from firewall.masquerade_table import PREFIX, name_of, network_of
from firewall.owner import Owner
from firewall.tables import Address, Interface, attempts
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


def presence(netfilter: Netfilter) -> LookUp[int]:
    """Ask whether the table exists."""
    return Table(netfilter, INET, _TABLE).uses_question()


def release(netfilter: Netfilter, addresses: Sequence[Interface]) -> None:
    """Remove the elements of `addresses`, for any owner. Raises NetlinkError."""
    table = Table(netfilter, INET, _TABLE)
    _remove(table, lambda: {address.ip: element for address in addresses if (element := _element(table, address))})


def unmasquerade(netfilter: Netfilter, label: str) -> None:
    """Remove an owner's elements, then unused chains and the unused table; none is fine. O(n). Raises NetlinkError."""
    table = Table(netfilter, INET, _TABLE)
    _remove(table, lambda: _all(table, label))
    remove_unused(netfilter)


def masqueraded(netfilter: Netfilter) -> list[tuple[Interface, str]]:
    """Return the addresses that are masqueraded, with their subnets' prefixes, and their owners' labels. O(n)."""
    found = []
    for address, element in _all(Table(netfilter, INET, _TABLE)).items():
        with suppress(ValueError):  # another program's chain
            found.append((ip_interface((address, network_of(element.chain).prefixlen)), element.comment))
    return found


def remove_unused(netfilter: Netfilter) -> None:
    """Remove chains that no element leads to, and the table if nothing else is in it. Raises NetlinkError."""
    table = Table(netfilter, INET, _TABLE)
    # The kernel refuses to delete a chain or set that has come into use since the look-up.
    for chain in table.chains():
        if chain.startswith(PREFIX) and table.is_unused(chain):
            transaction = table.transaction()
            transaction.delete_chain(chain)
            table.try_commit(transaction, f"delete chain {chain}")
    table.remove_if_empty({_BASE_CHAIN}, _MAPS.values())


def is_masqueraded(netfilter: Netfilter, address: Interface, owner: Owner) -> bool:
    """Tell whether `address` is masqueraded for `owner`, rules included. Raises NetlinkError."""
    table = Table(netfilter, INET, _TABLE)
    element = _element(table, address)
    if element != Element(address.ip.packed, owner.label(), name_of(address.network)):
        return False
    # Nothing leads to a base chain, so its uses are its rules. The rules use the maps, so the maps exist.
    base = table.chain(_BASE_CHAIN)
    if base is None or base.hook != _HOOK or base.uses < _RULES_OF_BASE:
        return False
    return len(table.rules(element.chain)) >= _RULES_OF_SUBNET


def _remove(table: Table, find: Callable[[], dict[Address, Element]]) -> None:
    doing = "remove addresses from the maps of an earlier release"
    for _ in attempts(doing):
        generation = table.generation()
        transaction = table.transaction()
        for address, element in find().items():
            transaction.delete_elements(_MAPS[address.version], [element])
        # The guard makes the commit fail if the elements are no longer the owner's.
        if not transaction.messages or table.try_commit(transaction, doing, generation=generation):
            break


def _element(table: Table, address: Interface) -> Element | None:
    return table.element(_MAPS[address.version], address.ip.packed)


def _all(table: Table, comment: str = "") -> dict[Address, Element]:
    return {ip_address(element.key): element for name in _MAPS.values() for element in table.elements(name, comment)}
