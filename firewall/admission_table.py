"""The admission of an attachment, and the tables of `firewall.admission_nft` that have it.

A configuration asks for an `Admission`. Of the tables, here are names, rules, and the look-up of one attachment's
elements.
"""

from fast_stdlib.hashing import sha256
from fast_stdlib.typing import Any, Final, Iterable, NamedTuple, Sequence
from firewall.owner import Owner
from firewall.tables import OWNERS, Address, Interface, owner_key
from netlink.netfilter import LookUp, Netfilter
from netlink.nft_expressions import (
    ESTABLISHED,
    IIFNAME,
    NEXT_REGISTER,
    OIFNAME,
    RELATED,
    connection_state,
    destination,
    matched,
    meta,
    source,
    verdict,
)
from netlink.nft_transaction import ADDRESS_KEYS, IFNAME_KEY, Hook, KeyType, Transaction
from netlink.nft_wire import ACCEPT, BRIDGE, DROP, INET, JUMP, Attributes
from netlink.nftables import NftChain, NftTable

SAME_BRIDGE: Final = "same-bridge"
ISOLATED: Final = "isolated"
ADMIN_CHAIN: Final = "CNI-ADMIN"
ZONE: Final = "trusted"

_TABLE: Final = "cni_harness_firewall"
HOOK = Hook("filter", 2, 0)  # NF_INET_FORWARD; priority filter
PORTS_HOOK = Hook("filter", 2, 0)  # NF_BR_FORWARD
FORWARD: Final = "forward"
ADMIN: Final = "admin"
PODS: Final = {4: "pods4", 6: "pods6"}
MEMBERS: Final = "members"
BRIDGES: Final = "bridges"
SAME: Final = "same_bridge"
ATTACHMENTS: Final = "attachments"
PORTS: Final = "isolated_ports"
OBJECTS: Final = 9
"""The sets, the chains, and the counter of attachments: all but the counters of bridges."""

_PAIR = KeyType(41 << 6 | 41, 32, 0)  # ifname . ifname


class Ingress(NamedTuple):
    """A restriction of the traffic between pods."""

    policy: str
    """`SAME_BRIDGE`: pods of other restricted bridges do not reach the pod. `ISOLATED`: nor do those of its own."""
    bridge: str
    """The host's interface that the pods of the network share."""
    port: str = ""
    """The pod's port of the bridge; "" if it is not known."""


class Admission(NamedTuple):
    """The addresses that the firewall lets pass, and by which means. Without addresses: any that the owner has."""

    addresses: Sequence[Interface] = ()
    ingress: Ingress | None = None
    backend: str | None = None
    """`nftables`, `iptables`, `firewalld`; None for a choice by the node's firewall."""
    admin_chain: str = ADMIN_CHAIN
    """The chain of iptables that comes before the rules of pods."""
    zone: str = ZONE
    """The zone of firewalld."""


def open_table(netfilter: Netfilter) -> NftTable:
    """Return the table of admissions; nothing is asked yet."""
    return NftTable(netfilter, INET, _TABLE)


def name_key(name: str) -> bytes:
    """Return the key for an interface name."""
    return name.encode().ljust(IFNAME_KEY.length, b"\0")


def pair_key(bridge: str) -> bytes:
    """Return the key for traffic from a bridge to itself."""
    return name_key(bridge) * 2


def counter_name(ingress: Ingress) -> str:
    """Return the name of the counter of a bridge's pods with this policy.

    It has a hash of the bridge's name, which may have characters that nft(8) cannot read in a name.
    """
    return f"{ingress.policy}-{sha256(ingress.bridge.encode()).hexdigest()[:12]}"


def restore(transaction: Transaction, base: NftChain | None) -> None:
    """Make the missing objects of the table, and all rules anew. The chain of administrators keeps its rules."""
    transaction.add_table()
    transaction.add_counter(ATTACHMENTS)
    for name in (OWNERS, MEMBERS):
        transaction.add_set(name, IFNAME_KEY, counters=True)
    for version, name in PODS.items():
        transaction.add_set(name, ADDRESS_KEYS[version])
    transaction.add_set(BRIDGES, IFNAME_KEY)
    transaction.add_set(SAME, _PAIR)
    transaction.add_chain(ADMIN)
    if base and base.hook != HOOK:
        transaction.delete_chain(FORWARD)
    transaction.add_chain(FORWARD, HOOK)
    transaction.set_rules(FORWARD, *RULES)


def restore_ports(transaction: Transaction, base: NftChain | None) -> None:
    """Make the missing objects of the table of isolated ports, and all rules anew."""
    transaction.add_table()
    transaction.add_set(PORTS, IFNAME_KEY)
    if base and base.hook != PORTS_HOOK:
        transaction.delete_chain(FORWARD)
    transaction.add_chain(FORWARD, PORTS_HOOK)
    transaction.set_rules(FORWARD, *PORT_RULES)


def _rules() -> list[Attributes]:
    between = [*meta(IIFNAME), *meta(OIFNAME, NEXT_REGISTER), *matched(SAME, absent=True)]
    restricted = [*meta(IIFNAME), *matched(BRIDGES), *meta(OIFNAME), *matched(BRIDGES)]
    rules: list[Attributes] = [verdict(JUMP, ADMIN), [*restricted, *between, *verdict(DROP)]]
    for version, name in PODS.items():
        state = connection_state(ESTABLISHED, RELATED)
        rules.append([*destination(version), *matched(name), *state, *verdict(ACCEPT)])
        rules.append([*source(version), *matched(name), *verdict(ACCEPT)])
    return rules


RULES: Final = _rules()
PORT_RULES: Final = [[*meta(way), *matched(PORTS), *verdict(DROP)] for way in (IIFNAME, OIFNAME)]


class SeenAdmission:
    """The answers to one system call about an owner; all belong to `generation`, or to a later one."""

    def __init__(
        self, netfilter: Netfilter, owner: Owner, addresses: Iterable[Address], ingress: Ingress | None = None
    ) -> None:
        """Ask for the owner's elements, those of the addresses, and the state of a bridge. Raises NetlinkError."""
        self.table = table = open_table(netfilter)
        self.ports = ports = NftTable(netfilter, BRIDGE, _TABLE)
        """The table of isolated bridge ports."""
        generation, uses = table.generation_question(), table.uses_question()
        base, admin = table.chain_question(FORWARD), table.chain_question(ADMIN)
        count = table.counter_question(ATTACHMENTS)
        listed = table.element_question(OWNERS, owner_key(owner.label()))
        member = table.element_question(MEMBERS, owner_key(owner.label()))
        pods = {ip: table.element_question(PODS[ip.version], ip.packed) for ip in dict.fromkeys(addresses)}
        questions: list[LookUp[Any]] = [generation, uses, base, admin, count, listed, member, *pods.values()]
        self.bridge = self.same = self.port = None
        self.ports_base: NftChain | None = None
        self.counts: dict[str, int] = {}
        """Of pods with each policy on the bridge."""
        if ingress:
            bridge = table.element_question(BRIDGES, name_key(ingress.bridge))
            same = table.element_question(SAME, pair_key(ingress.bridge))
            names = {policy: counter_name(ingress._replace(policy=policy)) for policy in (SAME_BRIDGE, ISOLATED)}
            counters = {policy: table.counter_question(name) for policy, name in names.items()}
            ports_base = ports.chain_question(FORWARD)
            port = ports.element_question(PORTS, name_key(ingress.port))
            # A kernel without nftables for bridges refuses to look there.
            of_ports: list[LookUp[Any]] = [ports_base, port] if ingress.policy == ISOLATED else []
            netfilter.look_up(*questions, bridge, same, *counters.values(), *of_ports)
            self.bridge, self.same, self.port = bridge.found, same.found, port.found
            self.ports_base = ports_base.found
            self.counts = {policy: each.found for policy, each in counters.items() if each.found is not None}
        else:
            netfilter.look_up(*questions)
        self.generation = generation.found or 0
        self.uses = uses.found
        self.base = base.found
        self.admin = admin.found
        self.count = count.found or 0
        """Of attachments in the table."""
        self.listed = listed.found
        self.member = member.found
        self.pods = {ip: question.found for ip, question in pods.items() if question.found}

    def is_whole(self) -> bool:
        """Tell whether the base chain has its hook and rules. Raises NetlinkError."""
        return _is_whole(self.table, self.base, len(RULES))

    def has_port_rules(self) -> bool:
        """Tell whether the chain of isolated ports has its hook and rules. Raises NetlinkError."""
        return _is_whole(self.ports, self.ports_base, len(PORT_RULES))


def _is_whole(table: NftTable, chain: NftChain | None, rules: int) -> bool:
    """Tell whether a base chain has its hook and this number of rules. The rules hold the sets that they use."""
    return chain is not None and chain.hook == HOOK and (chain.uses == rules or len(table.rules(FORWARD)) == rules)
