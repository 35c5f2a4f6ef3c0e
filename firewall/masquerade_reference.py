"""What the nftables backend of the reference plugins (containernetworking/plugins) left: recognized and removed.

It keeps a rule for each address in a table of its own, with a comment that begins with a hash of the attachment.
Everything happens in the network namespace of the socket; where that backend never ran, each function
is one look-up.
"""

import errno

from lean.hashing import sha512
from lean.typing import Final
from netlink.nft_wire import INET
from netlink.nftables import ATTEMPTS, Netfilter, Rule, Table
from netlink.socket import NetlinkError

__all__ = ["is_masqueraded_by_reference", "unmasquerade_reference"]

_TABLE: Final = "cni_plugins_masquerade"
_CHAIN: Final = "masq_checks"


def is_masqueraded_by_reference(netfilter: Netfilter, network: str, ifname: str, container_id: str) -> bool:
    """Tell whether an attachment has rules there. Raises NetlinkError."""
    table = Table(netfilter, INET, _TABLE)
    return bool(_rules(table, network, ifname, container_id))


def unmasquerade_reference(netfilter: Netfilter, network: str, ifname: str, container_id: str) -> None:
    """Remove the rules of an attachment; none is fine. Raises NetlinkError."""
    doing = f"remove the rules of {container_id} from table {_TABLE}"
    table = Table(netfilter, INET, _TABLE)
    for _ in range(ATTEMPTS):
        own = _rules(table, network, ifname, container_id)
        if not own:
            return
        transaction = table.transaction()
        for rule in own:
            transaction.delete_rule(_CHAIN, rule)
        if table.try_commit(transaction, doing):
            return
    raise NetlinkError(errno.EAGAIN, f"{doing}: the firewall's rules kept changing")


def _rules(table: Table, network: str, ifname: str, container_id: str) -> list[Rule]:
    if table.uses() is None:
        return []
    prefix = f"{_hash(network)}-{_hash(f'{ifname}:{container_id}')}"
    return [rule for rule in table.rules(_CHAIN) if rule.comment.startswith(prefix)]


def _hash(text: str) -> str:
    return sha512(text.encode()).hexdigest()[:16]
