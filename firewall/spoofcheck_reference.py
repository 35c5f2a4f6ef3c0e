"""Source address checks of the reference plugins (containernetworking/plugins): recognized, repaired and removed.

They keep two chains for each attachment, and a rule that jumps there for a port. Other programs may use their table,
too. Everything happens in the network namespace of the socket. If the reference plugins left nothing, each function
is one look-up.
"""

from fast_stdlib.typing import Final
from firewall.owner import Owner
from firewall.spoofcheck_nft import Port
from firewall.tables import Tables, attempts
from netlink.nft_expressions import REGISTER, compared, incoming_port, source_ethernet, verdict
from netlink.nft_transaction import Hook, Transaction
from netlink.nft_wire import BRIDGE, DROP, JUMP, RETURN, Attributes
from netlink.nftables import NftTable

_TABLE: Final = "nat"
_BASE_CHAIN: Final = "PREROUTING"
_COMMENT_MAX = 128
"""The most bytes that nft(8) accepts in a comment. The reference makes its rules with nft(8)."""
_HOOK = Hook("filter", 0, -300)  # NF_BR_PRE_ROUTING; priority dstnat
_RULES_OF_MAC = 2
_IFNAME_LENGTH = 16


def repair(tables: Tables, owner: Owner, port: Port) -> None:
    """Put back missing chains and rules of an attachment; complete chains stay. Raises NetlinkError.

    Frames that enter through bridge port `port` with another Ethernet source than the port's MAC are dropped.
    """
    chain, comment = _chain(owner), _comment(owner)
    doing = f"restore chain {chain}"
    table = NftTable(tables.netfilter(), BRIDGE, _TABLE)
    for _ in attempts(doing):
        transaction = table.transaction()
        leading = [rule for rule in table.rules(_BASE_CHAIN) if rule.comment == comment]
        is_whole = len(table.rules(chain)) == 1 and len(table.rules(f"{chain}-mac")) == _RULES_OF_MAC
        if leading and is_whole:
            return
        transaction.add_table()
        transaction.add_chain(_BASE_CHAIN, _HOOK)
        if not is_whole:
            _restore(transaction, chain, comment, port)
        if not leading:
            name = port.name.encode().ljust(_IFNAME_LENGTH, b"\0")
            transaction.add_rule(_BASE_CHAIN, [*incoming_port(), *compared(name), *verdict(JUMP, chain)], comment)
        if table.try_commit(transaction, doing):
            return


def holds(tables: Tables, owner: Owner, _: object) -> bool:
    """Tell whether an attachment has rules there. Raises NetlinkError."""
    if len(_comment(owner)) > _COMMENT_MAX:
        return False
    table = NftTable(tables.netfilter(), BRIDGE, _TABLE)
    return table.chain_uses(_chain(owner)) is not None


def remove(tables: Tables, owner: Owner, port: object) -> None:
    """Remove the rules and chains of an attachment; none is fine. Raises NetlinkError."""
    if not holds(tables, owner, port):
        return
    chain, comment = _chain(owner), _comment(owner)
    doing = f"remove chain {chain}"
    table = NftTable(tables.netfilter(), BRIDGE, _TABLE)
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


def _restore(transaction: Transaction, chain: str, comment: str, port: Port) -> None:
    """Make the two chains of an attachment anew."""
    mac = bytes.fromhex(port.mac.replace(":", ""))
    own_mac: Attributes = [*source_ethernet(REGISTER), *compared(mac), *verdict(RETURN)]
    chains = {f"{chain}-mac": (own_mac, verdict(DROP)), chain: (verdict(JUMP, f"{chain}-mac"),)}
    for name in chains:
        transaction.add_chain(name)
        transaction.set_rules(name)
    for name, rules in chains.items():
        for rule in rules:
            transaction.add_rule(name, rule, comment)


def _chain(owner: Owner) -> str:
    return f"cni-br-iface-{owner.container_id}-{owner.ifname}"


def _comment(owner: Owner) -> str:
    return f"macspoofchk-{owner.container_id}-{owner.ifname}"
