"""Source address checks that the reference plugins (containernetworking/plugins) left: recognized and removed.

They keep two chains for each attachment in a table that is not theirs alone, and a rule that leads a port there.
Everything happens in the network namespace of the socket; where there is nothing of theirs, each
function is one look-up.
"""

from firewall.owner import Owner
from firewall.tables import Tables, attempts
from lean.typing import Final
from netlink.nft_wire import BRIDGE
from netlink.nftables import Table

__all__ = ["holds", "remove"]

_TABLE: Final = "nat"
_BASE_CHAIN: Final = "PREROUTING"
_COMMENT_MAX = 128
"""Bytes in a comment that nft(8), with which the reference makes its rules, puts up with."""


def holds(tables: Tables, owner: Owner, _: object) -> bool:
    """Tell whether an attachment has rules there. Raises NetlinkError."""
    if len(_comment(owner)) > _COMMENT_MAX:
        return False
    table = Table(tables.netfilter(), BRIDGE, _TABLE)
    return table.chain_uses(_chain(owner)) is not None


def remove(tables: Tables, owner: Owner, port: object) -> None:
    """Remove the rules and chains of an attachment; none is fine. Raises NetlinkError."""
    if not holds(tables, owner, port):
        return
    chain, comment = _chain(owner), _comment(owner)
    doing = f"remove chain {chain}"
    table = Table(tables.netfilter(), BRIDGE, _TABLE)
    for _ in attempts(doing):
        transaction = table.transaction()
        for rule in table.rules(_BASE_CHAIN):
            if rule.comment == comment:
                transaction.delete_rule(_BASE_CHAIN, rule)
        for name in (chain, f"{chain}-mac"):
            if table.chain_uses(name) is not None:
                transaction.delete_chain(name)
        if not transaction.messages or table.try_commit(transaction, doing):
            return


def _chain(owner: Owner) -> str:
    return f"cni-br-iface-{owner.container_id}-{owner.ifname}"


def _comment(owner: Owner) -> str:
    return f"macspoofchk-{owner.container_id}-{owner.ifname}"
