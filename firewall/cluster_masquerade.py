"""Masquerading of pods' packets that leave the cluster, in a table of the node's agent.

    table inet cni_harness_agent {
        chain postrouting {
            type nat hook postrouting priority srcnat
            ip saddr 10.244.1.0/24 ip daddr != 10.244.0.0/16 ip daddr != 224.0.0.0/4 masquerade comment "…"
        }
    }

One rule for each range of this node. The comment has a hash of the whole rule, so that a comparison needs no decoding.
"""

from fast_stdlib.hashing import sha256
from fast_stdlib.typing import Final, Iterable, Sequence
from firewall.masquerade_table import MULTICAST
from firewall.tables import Network
from netlink.netfilter import Netfilter
from netlink.nft_expressions import destination_outside, masquerading, source_within
from netlink.nft_transaction import Hook
from netlink.nft_wire import INET
from netlink.nftables import NftTable

TABLE: Final = "cni_harness_agent"
_CHAIN: Final = "postrouting"
_HOOK: Final = Hook("nat", 4, 100)  # NF_INET_POST_ROUTING; priority srcnat


class MasqueradeTable:
    """The table in the network namespace of the socket. All raise NetlinkError."""

    def __init__(self, netfilter: Netfilter) -> None:
        """Ask nothing yet."""
        self._table = NftTable(netfilter, INET, TABLE)

    def sign(self, ranges: Iterable[Network], kept: Sequence[Network]) -> str:
        """Compare the table with the rules for `ranges`, whose packets to `kept` keep their source address.

        Return `+`, `-` or `~` (missing, left over, with other rules), or "" if it is as planned.
        """
        wanted = [_comment(each, kept) for each in ranges]
        if self._table.uses() is None:
            return "+" if wanted else ""
        if not wanted:
            return "-"
        chain = self._table.chain(_CHAIN)
        if chain is None or chain.hook != _HOOK:
            return "~"
        return "" if [rule.comment for rule in self._table.rules(_CHAIN)] == wanted else "~"

    def replace(self, ranges: Iterable[Network], kept: Sequence[Network]) -> None:
        """Make the table anew with these rules; without a range it is removed."""
        ranges = list(ranges)
        transaction = self._table.transaction()
        transaction.add_table()
        transaction.delete_table(contents=True)
        if ranges:
            transaction.add_table()
            transaction.add_chain(_CHAIN, _HOOK)
        for each in ranges:
            outside = [*(other for other in kept if other.version == each.version), MULTICAST[each.version]]
            rule = [*destination_outside(*outside), *source_within(each), *masquerading()]
            transaction.add_rule(_CHAIN, rule, _comment(each, kept))
        self._table.commit(transaction, doing=f"replace table {TABLE}")


def _comment(network: Network, kept: Sequence[Network]) -> str:
    told = " ".join(map(str, (network, *kept)))
    return f"{network} {sha256(told.encode()).hexdigest()[:12]}"
