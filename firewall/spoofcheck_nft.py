"""Source address checks on the ports of bridges: only frames from the pod's own MAC address enter.

    table bridge cni_harness {
        map checked_ports { type ifname : verdict; elements = { "veth1" comment "…" : goto check_source } }
        set allowed_macs { type ifname . ether_addr; elements = { "veth1" . 02:00:00:00:00:01 comment "…" } }
        chain check_source { iifname . ether saddr != @allowed_macs drop; }
        chain prerouting { type filter hook prerouting priority -300; iifname vmap @checked_ports; }
    }

The cost for a frame does not grow with the number of ports. Everything happens in the network namespace of the
socket. The table is made for the first port and removed with the last. If other programs flush or delete rules
and chains, the next port restores them.
"""

import errno

from fast_stdlib.typing import Collection, Final, NamedTuple
from firewall.owner import Owner
from firewall.tables import Tables, attempts, demand_bridge_family
from netlink.nft_expressions import incoming_port, matched, source_ethernet, verdict
from netlink.nft_transaction import IFNAME_KEY, Hook, KeyType, Transaction
from netlink.nft_wire import BRIDGE, DROP, Element
from netlink.nftables import LOST_RACES, NftChain, NftTable
from netlink.wire import NetlinkError
from skel.steps import Steps

_TABLE: Final = "cni_harness"
_PORTS = "checked_ports"
_MACS = "allowed_macs"
_CHECK = "check_source"
_BASE_CHAIN = "prerouting"
_HOOK = Hook("filter", 0, -300)  # NF_BR_PRE_ROUTING; priority dstnat, which comes before the bridge looks at a frame
_IFNAME_AND_MAC = KeyType(41 << 6 | 9, 24, 0)  # ifname . ether_addr, each filled up to a multiple of 4 bytes
_OBJECTS_WITHOUT_PORTS = 4  # the map, the set and both chains


class Port(NamedTuple):
    """A port of a bridge, and the MAC address that frames may come from; removal does not need the address."""

    name: str
    mac: str = ""


def apply(tables: Tables, owner: Owner, port: Port) -> None:
    """Drop frames that enter through bridge port `port` with another Ethernet source than the port's MAC address.

    The owner's existing elements stay. Another owner's elements for a port of that name are replaced. Raises
    NetlinkError: EOPNOTSUPP on a kernel without nftables for bridges.
    """
    doing = f"check source addresses on port {port.name!r}"
    wanted = _elements(port, owner)
    table = _table(tables)
    for _ in attempts(doing):
        present = _present(table, port)
        base = table.chain(_BASE_CHAIN)
        is_whole = _is_whole(table, base)
        if present == wanted and is_whole:
            return
        transaction = table.transaction()
        cold = base is None and not is_whole
        if not is_whole:
            _restore(transaction, base)
        for name, element in present.items():
            transaction.delete_elements(name, [element])
        for name, element in wanted.items():
            transaction.add_elements(name, [element])
        # This transaction needs no existing object, so "no such object" means that the kernel lacks a feature.
        lost_races = LOST_RACES - {errno.ENOENT} if cold and not present else LOST_RACES
        try:
            is_done = table.try_commit(transaction, doing, lost_races)
        except NetlinkError:
            demand_bridge_family(tables, _HOOK, doing)
            raise
        if is_done:
            return


def remove(tables: Tables, owner: Owner, port: Port) -> None:
    """Take back `apply`; no elements, or another owner's, are fine. Raises NetlinkError."""
    doing = f"stop checking source addresses on port {port.name!r}"
    table = _table(tables)
    for _ in attempts(doing):
        generation = table.generation()
        checked = table.element(_PORTS, _port_key(port))
        if not checked or _label(checked) != owner.label():
            break
        transaction = table.transaction()
        for name, element in _present(table, port).items():
            transaction.delete_elements(name, [element])
        if table.try_commit(transaction, doing, generation=generation):
            break
    _remove_unused(table)


def holds(tables: Tables, owner: Owner, port: Port) -> bool:
    """Tell whether `apply` is in force for this port, MAC address and owner, rules included. Raises NetlinkError."""
    table = _table(tables)
    return _present(table, port) == _elements(port, owner) and _is_whole(table, table.chain(_BASE_CHAIN))


def collect(tables: Tables, network: str, valid: Collection[Owner]) -> None:
    """Remove the elements of the network's owners that are not in `valid`, and the table if it checks no port. O(n).

    Raises NetlinkError, and CniError for several errors.
    """
    with Steps() as steps:
        for port, owner in spoof_checked(tables):
            if owner.in_network(network) and owner not in valid:
                steps.take(remove, tables, owner, port)
        steps.take(_remove_unused, _table(tables))


def spoof_checked(tables: Tables) -> list[tuple[Port, Owner]]:
    """Return the checked ports and their owners. O(n). Raises NetlinkError."""
    checked = [(element, Owner.from_label(_label(element))) for element in _table(tables).elements(_PORTS)]
    return [(Port(element.key.rstrip(b"\0").decode(), _mac(element)), owner) for element, owner in checked if owner]


def _table(tables: Tables) -> NftTable:
    return NftTable(tables.netfilter(), BRIDGE, _TABLE)


def _elements(port: Port, owner: Owner) -> dict[str, Element]:
    # The MAC address is in the comment, so that the other element can be found by the port alone.
    comment = f"{owner.label()} {port.mac.lower()}"
    return {_PORTS: Element(_port_key(port), comment, _CHECK), _MACS: Element(_mac_key(port), owner.label())}


def _present(table: NftTable, port: Port) -> dict[str, Element]:
    """Return the elements for `port`; its MAC address is that of the existing element, if there is one."""
    checked = table.element(_PORTS, _port_key(port))
    allowed = table.element(_MACS, _mac_key(Port(port.name, _mac(checked)) if checked else port))
    return {name: element for name, element in ((_PORTS, checked), (_MACS, allowed)) if element}


def _label(checked: Element) -> str:
    return checked.comment.partition(" ")[0]


def _mac(checked: Element) -> str:
    return checked.comment.partition(" ")[2]


def _port_key(port: Port) -> bytes:
    return port.name.encode().ljust(IFNAME_KEY.length, b"\0")


def _mac_key(port: Port) -> bytes:
    return (_port_key(port) + bytes.fromhex(port.mac.replace(":", ""))).ljust(_IFNAME_AND_MAC.length, b"\0")


def _is_whole(table: NftTable, base: NftChain | None) -> bool:
    # The rules use the map and the set, so both exist.
    return base is not None and base.hook == _HOOK and table.has_rules(_BASE_CHAIN, base) and bool(table.rules(_CHECK))


def _restore(transaction: Transaction, base: NftChain | None) -> None:
    transaction.add_table()
    transaction.add_set(_PORTS, IFNAME_KEY, verdicts=True)
    transaction.add_set(_MACS, _IFNAME_AND_MAC)
    if base and base.hook != _HOOK:
        transaction.delete_chain(_BASE_CHAIN)
    for chain, hook, rule in (
        (_CHECK, None, [*source_ethernet(), *matched(_MACS, absent=True), *verdict(DROP)]),
        (_BASE_CHAIN, _HOOK, matched(_PORTS, verdicts=True)),
    ):
        transaction.add_chain(chain, hook)
        transaction.set_rules(chain, [*incoming_port(), *rule])


def _remove_unused(table: NftTable) -> None:
    uses = table.uses()
    if uses is None or uses > _OBJECTS_WITHOUT_PORTS:
        return
    if table.chain_uses(_CHECK) is None or table.is_unused(_CHECK):
        table.remove_if_empty({_BASE_CHAIN, _CHECK}, {_PORTS, _MACS})
