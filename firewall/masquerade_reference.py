"""Leftovers of the reference plugins' nftables backend (containernetworking/plugins): recognized and removed.

It keeps a rule for each address in a table of its own, with a comment that begins with a hash of the attachment.
Everything happens in the network namespace of the socket. If that backend never ran, each function is one
look-up.
"""

from firewall.owner import Owner
from firewall.tables import Tables, attempts
from lean.hashing import sha512
from lean.typing import Final
from netlink.nft_wire import INET
from netlink.nftables import Rule, Table

__all__ = ["holds", "remove"]

_TABLE: Final = "cni_plugins_masquerade"
_CHAIN: Final = "masq_checks"


def holds(tables: Tables, owner: Owner, _: object) -> bool:
    """Tell whether an attachment has rules there. Raises NetlinkError."""
    return bool(_rules(_table(tables), owner))


def remove(tables: Tables, owner: Owner, _: object) -> None:
    """Remove the rules of an attachment; none is fine. Raises NetlinkError."""
    doing = f"remove the rules of {owner.container_id} from table {_TABLE}"
    table = _table(tables)
    for _ in attempts(doing):
        own = _rules(table, owner)
        if not own:
            return
        transaction = table.transaction()
        for rule in own:
            transaction.delete_rule(_CHAIN, rule)
        if table.try_commit(transaction, doing):
            return


def _table(tables: Tables) -> Table:
    return Table(tables.netfilter(), INET, _TABLE)


def _rules(table: Table, owner: Owner) -> list[Rule]:
    if table.uses() is None:
        return []
    prefix = f"{_hash(owner.network)}-{_hash(f'{owner.ifname}:{owner.container_id}')}"
    return [rule for rule in table.rules(_CHAIN) if rule.comment.startswith(prefix)]


def _hash(text: str) -> str:
    return sha512(text.encode()).hexdigest()[:16]
