"""Leftovers of the reference plugins' nftables backend (containernetworking/plugins): recognized and removed.

It keeps a rule for each port in a table of its own, with the container ID as its comment. Everything happens in the
network namespace of the socket. If that backend never ran, each function is two look-ups.
"""

from firewall.owner import Owner
from firewall.port_mapping import Forwarding, PortMapping
from firewall.tables import Tables, attempts
from lean.typing import Final
from netlink.nft_wire import IPV4, IPV6
from netlink.nftables import Rule, Table

__all__ = ["holds", "remove"]

_TABLE: Final = "cni_hostport"
_PORTS: Final = "hostports"
_CHAINS: Final = (_PORTS, "hostip_hostports", "masquerading")
_PROTOCOLS = {4: IPV4, 6: IPV6}


def holds(tables: Tables, owner: Owner, forwarding: Forwarding) -> bool:
    """Tell whether the container has as many rules there as it has ports. Raises NetlinkError."""
    versions = [mapping.address.version for mapping in forwarding.mappings]
    return bool(versions) and all(
        len(_rules(_table(tables, version), _PORTS, owner)) >= versions.count(version) for version in set(versions)
    )


def remove(tables: Tables, owner: Owner, forwarding: Forwarding) -> list[PortMapping]:
    """Remove the container's rules; none is fine. Return the removed mappings, as `forwarding` has them.

    Raises NetlinkError.
    """
    doing = f"remove the rules of {owner.container_id} from table {_TABLE}"
    removed: list[PortMapping] = []
    for version in _PROTOCOLS:
        table = _table(tables, version)
        for _ in attempts(doing):
            transaction = table.transaction()
            for chain in _CHAINS:
                for rule in _rules(table, chain, owner):
                    transaction.delete_rule(chain, rule)
            if not transaction.messages:
                break
            if table.try_commit(transaction, doing):
                removed += [mapping for mapping in forwarding.mappings if mapping.address.version == version]
                break
    return removed


def _table(tables: Tables, version: int) -> Table:
    return Table(tables.netfilter(), _PROTOCOLS[version], _TABLE)


def _rules(table: Table, chain: str, owner: Owner) -> list[Rule]:
    if table.uses() is None:
        return []
    return [rule for rule in table.rules(chain) if rule.comment == owner.container_id]
