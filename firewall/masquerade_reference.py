"""Rules of the reference plugins' nftables backend (containernetworking/plugins): recognized, repaired and removed.

It keeps a rule for each address in a table of its own, with a comment that begins with a hash of the attachment.
Everything happens in the network namespace of the socket. If that backend never ran, each function is one
look-up.
"""

from ipaddress import ip_network

from fast_stdlib.hashing import sha512
from fast_stdlib.typing import Final, Sequence
from firewall.owner import Owner
from firewall.tables import Interface, Tables, attempts
from netlink.nft_expressions import destination_inside, leaving, masquerading, verdict
from netlink.nft_transaction import Hook, NftRule
from netlink.nft_wire import GOTO, INET, RETURN
from netlink.nftables import NftTable

_TABLE: Final = "cni_plugins_masquerade"
_CHAIN: Final = "masq_checks"
_BASE_CHAIN = "postrouting"
_HOOK = Hook("nat", 4, 100)  # NF_INET_POST_ROUTING; priority srcnat
_MULTICAST = (ip_network("224.0.0.0/4"), ip_network("ff00::/8"))
_COMMENT_LENGTH = 128
"""Bytes; the reference cuts its comments there, as nft(8) refuses longer ones."""


def repair(tables: Tables, owner: Owner, addresses: Sequence[Interface]) -> None:
    """Put back missing rules of an attachment, and the chains that lead to them. Raises NetlinkError."""
    doing = f"restore the rules of {owner.container_id} in table {_TABLE}"
    table = _table(tables)
    for _ in attempts(doing):
        base = table.chain(_BASE_CHAIN)
        present = len(_rules(table, owner))
        transaction = table.transaction()
        if base is None or not table.has_rules(_BASE_CHAIN, base):
            transaction.add_table()
            transaction.add_chain(_CHAIN)
            transaction.add_chain(_BASE_CHAIN, _HOOK)
            returns = [[*destination_inside(network), *verdict(RETURN)] for network in _MULTICAST]
            transaction.set_rules(_BASE_CHAIN, *returns, verdict(GOTO, _CHAIN))
        if present < len(addresses):
            for rule in _rules(table, owner):
                transaction.delete_rule(_CHAIN, rule)
            for address in addresses:
                transaction.add_rule(_CHAIN, [*leaving(address), *masquerading()], _comment(owner))
        if not transaction.messages or table.try_commit(transaction, doing):
            return


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


def _table(tables: Tables) -> NftTable:
    return NftTable(tables.netfilter(), INET, _TABLE)


def _rules(table: NftTable, owner: Owner) -> list[NftRule]:
    if table.uses() is None:
        return []
    prefix = _identity(owner)
    return [rule for rule in table.rules(_CHAIN) if rule.comment.startswith(prefix)]


def _identity(owner: Owner) -> str:
    named = (owner.network, f"{owner.ifname}:{owner.container_id}")
    return "-".join(sha512(each.encode()).hexdigest()[:16] for each in named)


def _comment(owner: Owner) -> str:
    names = f"net: {owner.network}, if: {owner.ifname}, id: {owner.container_id}".replace('"', "")
    return f"{_identity(owner)}, {names}".encode()[:_COMMENT_LENGTH].decode(errors="ignore")
