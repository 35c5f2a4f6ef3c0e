"""Masquerading of pods' traffic that leaves their subnet: one element of a map for each address.

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

What a packet meets does not grow with the number of pods, and neither does what a pod adds: an insertion into a hash
table. Everything happens in the network namespace that the calling thread is in. The table is made for the first
address and removed with the last. Rules and chains that others have flushed or deleted are restored with the next
address.
"""

import errno
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, NamedTuple

from netlink.nft_wire import INET, RETURN, Element, destination_in, masquerading, matched, source, verdict
from netlink.nftables import ATTEMPTS, LOST_RACES, Chain, Hook, KeyType, Table, Transaction
from netlink.owner import Owner
from netlink.socket import NetlinkError

__all__ = ["Owner", "is_masqueraded", "masquerade", "masqueraded", "remove_unused", "unmasquerade"]

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network

_TABLE: Final = "cni_harness"
_BASE_CHAIN = "postrouting"
_HOOK = Hook("nat", 4, 100)  # NF_INET_POST_ROUTING; priority srcnat
_MAPS = {4: "masquerade4", 6: "masquerade6"}
_KEY_TYPES = {4: KeyType(7, 4, 2), 6: KeyType(8, 16, 2)}  # ipv4_addr, ipv6_addr
_MULTICAST = (ip_network("224.0.0.0/4"), ip_network("ff00::/8"))
_SUBNET_PREFIX = "subnet-"
_RULES_OF_BASE = 4
_RULES_OF_SUBNET = 2
_OBJECTS_WITHOUT_SUBNETS = 3  # the maps and the base chain


def masquerade(addresses: Sequence[Interface], owner: Owner) -> None:
    """Masquerade traffic from `addresses` to anywhere but their subnets and multicast. Raises NetlinkError.

    What is done already stays; an element that another owner left behind for one of `addresses` is replaced.
    """
    wanted = {address: Element(address.ip.packed, owner.label(), _chain(address.network)) for address in addresses}
    doing = f"masquerade {', '.join(map(str, wanted))}"
    with Table(INET, _TABLE) as table:
        for _ in range(ATTEMPTS):
            # Looked at first, because a transaction that fails costs milliseconds: a grace period of RCU, during
            # which no other can begin.
            present = _present(table, wanted)
            missing = {address: element for address, element in wanted.items() if present.get(address.ip) != element}
            damage = _damage(table, {address.network for address in wanted})
            if not missing and damage.is_none:
                return
            stale = {address.ip: present[address.ip] for address in missing if address.ip in present}
            transaction = table.transaction()
            _restore(transaction, damage)
            _delete_elements(transaction, stale)
            _add_elements(transaction, missing)
            # Where nothing seen is relied upon, "no such object" says what this kernel lacks.
            lost_races = LOST_RACES - {errno.ENOENT} if damage.is_everything and not stale else LOST_RACES
            if table.try_commit(transaction, doing, lost_races):
                return
    raise NetlinkError(errno.EAGAIN, f"{doing}: the firewall's rules kept changing")


def unmasquerade(owner: Owner, addresses: Sequence[Interface] = ()) -> None:
    """Take back what `masquerade` did for `owner`; nothing there is fine. Raises NetlinkError.

    With `addresses` (whatever their prefixes) the cost does not depend on how many elements there are. Without, or
    where not all of them are the owner's, all elements are read to find those that are.
    """
    doing = f"stop masquerading {', '.join(map(str, addresses)) or owner.label()}"
    chains: set[str] = set()
    with Table(INET, _TABLE) as table:
        for _ in range(ATTEMPTS):
            generation = table.generation()
            owned = _owned(table, owner.label(), addresses)
            chains |= {element.chain for element in owned.values()}
            if not owned:
                # The elements may have been deleted by others, and their chains be left.
                chains.update(_subnets(table))
                break
            transaction = table.transaction()
            _delete_elements(transaction, owned)
            # The guard keeps the look true: the element must still be this owner's when it is deleted.
            if table.try_commit(transaction, doing, generation=generation):
                break
        else:
            raise NetlinkError(errno.EAGAIN, f"{doing}: the firewall's rules kept changing")
        _remove_unused(table, chains)


def masqueraded() -> list[tuple[Address, Owner]]:
    """Return the addresses that are masqueraded and their owners. O(n). Raises NetlinkError."""
    with Table(INET, _TABLE) as table:
        owners = {address: Owner.from_label(element.comment) for address, element in _all(table).items()}
    return [(address, owner) for address, owner in owners.items() if owner]


def remove_unused() -> None:
    """Remove chains that no element leads to, and the table if nothing else is in it. Raises NetlinkError."""
    with Table(INET, _TABLE) as table:
        _remove_unused(table, _subnets(table))


def is_masqueraded(address: Interface, owner: Owner) -> bool:
    """Tell whether `masquerade` is in force for `address` and `owner`, rules included. Raises NetlinkError."""
    with Table(INET, _TABLE) as table:
        element = table.element(_MAPS[address.version], address.ip.packed)
        if element != Element(address.ip.packed, owner.label(), _chain(address.network)):
            return False
        return _damage(table, [address.network]).is_none


class _Damage(NamedTuple):
    """What of the table is not there, or not whole."""

    base: Chain | None
    """The base chain, if it exists."""
    is_base_whole: bool
    networks: Collection[Network]
    """Those whose chains lack rules."""
    is_everything: bool
    """Whether none of the chains looked at exists."""

    @property
    def is_none(self) -> bool:
        return self.is_base_whole and not self.networks


def _damage(table: Table, networks: Collection[Network]) -> _Damage:
    """Look at the structure that elements of `networks` need: one look-up, and a short dump for each network.

    Nothing leads to a base chain, so its uses are its rules; and as those use the maps, the maps exist.
    """
    base = table.chain(_BASE_CHAIN)
    rules = {network: len(table.rules(_chain(network))) for network in networks}
    is_base_whole = base is not None and base.hook == _HOOK and base.uses >= _RULES_OF_BASE
    lacking = {network for network, count in rules.items() if count < _RULES_OF_SUBNET}
    if not is_base_whole:
        # A program that flushed these rules has flushed those of other networks, too.
        lacking.update(_subnets(table).values())
    return _Damage(base, is_base_whole, lacking, is_everything=base is None and not any(rules.values()))


def _restore(transaction: Transaction, damage: _Damage) -> None:
    if not damage.is_base_whole:
        transaction.add_table()
        for version, name in _MAPS.items():
            transaction.add_set(name, _KEY_TYPES[version], verdicts=True)
        if damage.base and damage.base.hook != _HOOK:
            transaction.delete_chain(_BASE_CHAIN)
        transaction.add_chain(_BASE_CHAIN, _HOOK)
        transaction.set_rules(
            _BASE_CHAIN,
            *([*destination_in(multicast), *verdict(RETURN)] for multicast in _MULTICAST),
            *([*source(version), *matched(name, verdicts=True)] for version, name in _MAPS.items()),
        )
    for network in damage.networks:
        transaction.add_chain(_chain(network))
        transaction.set_rules(_chain(network), [*destination_in(network), *verdict(RETURN)], masquerading())


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


def _add_elements(transaction: Transaction, wanted: Mapping[Interface, Element]) -> None:
    for address, element in wanted.items():
        transaction.add_elements(_MAPS[address.version], [element])


def _delete_elements(transaction: Transaction, elements: Mapping[Address, Element]) -> None:
    for address, element in elements.items():
        transaction.delete_elements(_MAPS[address.version], [element])


def _present(table: Table, addresses: Iterable[Interface]) -> dict[Address, Element]:
    found = {address.ip: table.element(_MAPS[address.version], address.ip.packed) for address in addresses}
    return {address: element for address, element in found.items() if element}


def _owned(table: Table, label: str, addresses: Sequence[Interface]) -> dict[Address, Element]:
    present = _present(table, addresses)
    if addresses and all(address.ip in present and present[address.ip].comment == label for address in addresses):
        return present
    return _all(table, label)


def _all(table: Table, comment: str = "") -> dict[Address, Element]:
    return {ip_address(element.key): element for name in _MAPS.values() for element in table.elements(name, comment)}


def _subnets(table: Table) -> dict[str, Network]:
    """Return the networks of the table's chains."""
    subnets = {}
    for name in table.chains():
        with suppress(ValueError):  # another's chain
            subnets[name] = _network(name)
    return subnets


def _chain(network: Network) -> str:
    # nft(8) takes neither ":" nor "/" (at the end) in a name, and must be able to load what it has saved.
    return f"{_SUBNET_PREFIX}{network}".replace(":", "_").replace("/", "-")


def _network(chain: str) -> Network:
    return ip_network(chain.removeprefix(_SUBNET_PREFIX).replace("_", ":").replace("-", "/"))
