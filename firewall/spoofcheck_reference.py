"""Source address checks that the reference plugins (containernetworking/plugins) left: recognized and removed.

They keep two chains for each attachment in a table that is not theirs alone, and a rule that leads a port there.
Everything happens in the network namespace of the socket; where there is nothing of theirs, each
function is one look-up.
"""

import errno

from lean.typing import Final
from netlink.nft_wire import BRIDGE
from netlink.nftables import ATTEMPTS, Netfilter, Table
from netlink.socket import NetlinkError

__all__ = ["disallow_reference", "is_spoof_checked_by_reference"]

_TABLE: Final = "nat"
_BASE_CHAIN: Final = "PREROUTING"
_COMMENT_MAX = 128
"""Bytes in a comment that nft(8), with which the reference makes its rules, puts up with."""


def is_spoof_checked_by_reference(netfilter: Netfilter, container_id: str, ifname: str) -> bool:
    """Tell whether an attachment has rules there. Raises NetlinkError."""
    if len(_comment(container_id, ifname)) > _COMMENT_MAX:
        return False
    table = Table(netfilter, BRIDGE, _TABLE)
    return table.chain_uses(_chain(container_id, ifname)) is not None


def disallow_reference(netfilter: Netfilter, container_id: str, ifname: str) -> None:
    """Remove the rules and chains of an attachment; none is fine. Raises NetlinkError."""
    if not is_spoof_checked_by_reference(netfilter, container_id, ifname):
        return
    chain, comment = _chain(container_id, ifname), _comment(container_id, ifname)
    doing = f"remove chain {chain}"
    table = Table(netfilter, BRIDGE, _TABLE)
    for _ in range(ATTEMPTS):
        transaction = table.transaction()
        for rule in table.rules(_BASE_CHAIN):
            if rule.comment == comment:
                transaction.delete_rule(_BASE_CHAIN, rule)
        for name in (chain, f"{chain}-mac"):
            if table.chain_uses(name) is not None:
                transaction.delete_chain(name)
        if not transaction.messages or table.try_commit(transaction, doing):
            return
    raise NetlinkError(errno.EAGAIN, f"{doing}: the firewall's rules kept changing")


def _chain(container_id: str, ifname: str) -> str:
    return f"cni-br-iface-{container_id}-{ifname}"


def _comment(container_id: str, ifname: str) -> str:
    return f"macspoofchk-{container_id}-{ifname}"
