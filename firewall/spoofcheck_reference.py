"""Leftover source address checks of the reference plugins (containernetworking/plugins): recognized and removed.

They keep two chains for each attachment, and a rule that jumps there for a port. Other programs may use their table,
too. Everything happens in the network namespace of the socket. If the reference plugins left nothing, each function
is one look-up.
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
"""The most bytes that nft(8) accepts in a comment. The reference makes its rules with nft(8)."""


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
