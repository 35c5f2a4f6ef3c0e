"""The rules of `firewall.port_mappings_nft`, and the objects that they need: compared, and made if they are missing.

The conditions of a network are in the words of nft(8), which alone can read them: the only part that runs a process.
They stand in the first two chains of the network's own table, so they hold for its own ports alone.
"""

import errno
from ipaddress import IPv4Network

from fast_stdlib.hashing import sha256
from fast_stdlib.typing import Mapping, Sequence
from firewall.iptables_program import IptablesError, Program, run
from firewall.port_mappings_elements import (
    ADDRESS_PORTS,
    ATTACHMENTS,
    FORWARD,
    MASQUERADE,
    MASQUERADE_ALL,
    OBJECTS,
    PORTS,
    VERSIONS,
    SeenPorts,
)
from firewall.tables import OWNER_KEY, OWNERS, Tables
from netlink.nft_expressions import (
    IIFNAME,
    L4PROTO,
    OIFNAME,
    WORD,
    destination_address,
    destination_port,
    family_is,
    has_no_input,
    is_destination_local,
    is_destination_rewritten,
    is_source_foreign,
    masquerading,
    matched,
    meta,
    rewrite_destination,
    source_within,
    verdict,
)
from netlink.nft_transaction import ADDRESS_KEYS, IFNAME_KEY, Hook, KeyType, Transaction
from netlink.nft_wire import JUMP, Attributes
from netlink.nftables import NftChain, NftTable

_HOOKS = {
    "prerouting": Hook("nat", 0, -100),  # NF_INET_PRE_ROUTING; priority dstnat
    "output": Hook("nat", 3, -100),  # NF_INET_LOCAL_OUT
    "postrouting": Hook("nat", 4, 100),  # NF_INET_POST_ROUTING; priority srcnat
}
_GUARDS = ("prerouting", "output")
"""The chains that lead packets to the ports."""
_FAMILIES = {4: "ipv4", 6: "ipv6"}
"""The words of nft(8): a network with conditions has a rule for each in a chain of `_GUARDS`."""
_NEW_EXPRESSION = b"fib\0"
"""Of `is_source_foreign`, in the rules for packets without an input interface alone."""
_LOCALHOST = IPv4Network("127.0.0.0/8")

# Data types of nft(8): a concatenation has 6 bits for each part, and each part fills multiples of 4 bytes.
_PROTOCOL, _PORT = KeyType(12, 4, 2), KeyType(13, 4, 2)


def _concatenated(*parts: KeyType) -> KeyType:
    number = 0
    for part in parts:
        number = number << 6 | part.number
    return KeyType(number, sum(part.length for part in parts), 0)


_MAPS = {
    **{f"{PORTS}{version}": (_concatenated(_PROTOCOL, _PORT), version) for version in VERSIONS},
    **{
        f"{ADDRESS_PORTS}{version}": (_concatenated(ADDRESS_KEYS[version], _PROTOCOL, _PORT), version)
        for version in VERSIONS
    },
}
_SETS = {
    f"{name}{version}": _concatenated(ADDRESS_KEYS[version], IFNAME_KEY)
    for name in (MASQUERADE, MASQUERADE_ALL)
    for version in VERSIONS
}


def is_whole(
    table: NftTable, seen: SeenPorts, conditions: Mapping[int, Sequence[str]], *, earlier: bool = False
) -> bool:
    """Tell whether the chains have their hooks and rules, and the first two these conditions. Raises NetlinkError.

    With `earlier`, tell whether the rules are those of a version without those for packets without an input interface.
    """
    guards = len(_FAMILIES) if conditions else 1
    if seen.uses is None or seen.uses < OBJECTS:
        return False
    expected = {name: guards if name in _GUARDS else len(_RULES[name]) for name in _HOOKS}
    if earlier:
        expected["postrouting"] -= len(VERSIONS)
        # Without one of the others and with a new one, the rules would be as many.
        if any(_NEW_EXPRESSION in rule.expressions for rule in table.rules("postrouting")):
            return False
    hooked = all((chain := seen.chains[name]) and chain.hook == hook for name, hook in _HOOKS.items())
    comments = [_comment(conditions)] * len(_FAMILIES)
    return (
        hooked
        and _has(table, FORWARD, seen.chains[FORWARD], len(_RULES[FORWARD]), jumps=guards * len(_GUARDS))
        and all(_has(table, name, seen.chains[name], count) for name, count in expected.items())
        and (not conditions or all([rule.comment for rule in table.rules(each)] == comments for each in _GUARDS))
    )


def _has(table: NftTable, name: str, chain: NftChain | None, rules: int, jumps: int = 0) -> bool:
    # While another process replaces all rules, the kernel counts too few uses for a moment.
    return chain is not None and (chain.uses == rules + jumps or len(table.rules(name)) == rules)


def restore(transaction: Transaction, seen: SeenPorts, *, guards: bool = True) -> None:
    """Make all objects and rules that are missing; without `guards`, but for the rules of the first two chains."""
    transaction.add_table()
    transaction.add_counter(ATTACHMENTS)
    transaction.add_set(OWNERS, OWNER_KEY, counters=True)
    for name, (key, version) in _MAPS.items():
        transaction.add_set(name, key, value=_concatenated(ADDRESS_KEYS[version], _PORT))
    for name, key in _SETS.items():
        transaction.add_set(name, key)
    for name, hook in _HOOKS.items():
        chain = seen.chains[name]
        if chain and chain.hook != hook:
            transaction.delete_chain(name)
    transaction.add_chain(FORWARD)
    transaction.set_rules(FORWARD, *_RULES[FORWARD])
    for name, hook in _HOOKS.items():
        transaction.add_chain(name, hook)
        if guards or name not in _GUARDS:
            transaction.set_rules(name, *_RULES[name])


def _forwarding_rules() -> list[Attributes]:
    rules: list[Attributes] = []
    for version in VERSIONS:
        words_of_address = ADDRESS_KEYS[version].length // 4
        ports = [*meta(L4PROTO, WORD), *destination_port(WORD + 1)]
        address_ports = [
            *destination_address(version),
            *meta(L4PROTO, WORD + words_of_address),
            *destination_port(WORD + words_of_address + 1),
        ]
        for name, key in ((ADDRESS_PORTS, address_ports), (PORTS, ports)):
            look_up = matched(f"{name}{version}", values=True)
            rules.append([*family_is(version), *key, *look_up, *rewrite_destination(version)])
    return rules


def _masquerading_rules() -> list[Attributes]:
    rules: list[Attributes] = []
    for version in VERSIONS:
        dnat = [*family_is(version), *is_destination_rewritten()]
        ifname = WORD + ADDRESS_KEYS[version].length // 4
        # By the interface that the pod is on: its own packets, and those of its neighbours on a bridge, who would get
        # the answer from an address that they did not ask.
        for name, key in ((MASQUERADE, IIFNAME), (MASQUERADE_ALL, OIFNAME)):
            pod = [*destination_address(version), *meta(key, ifname), *matched(f"{name}{version}")]
            rules.append([*dnat, *pod, *masquerading()])
        # Packets that stay in a bridge with bridge-nf-call-iptables: their input interface is not known.
        pod = [*destination_address(version), *meta(OIFNAME, ifname), *matched(f"{MASQUERADE}{version}")]
        rules.append([*dnat, *has_no_input(), *is_source_foreign(), *pod, *masquerading()])
    to_pod = [*destination_address(4), *meta(OIFNAME, WORD + 1), *matched(f"{MASQUERADE}4")]
    rules.append([*family_is(4), *is_destination_rewritten(), *source_within(_LOCALHOST), *to_pod, *masquerading()])
    return rules


_GUARD = [*is_destination_local(), *verdict(JUMP, FORWARD)]
_RULES: Mapping[str, list[Attributes]] = {
    "prerouting": [_GUARD],
    "output": [_GUARD],
    FORWARD: _forwarding_rules(),
    "postrouting": _masquerading_rules(),
}


def add_conditions(tables: Tables, table: str, conditions: Mapping[int, Sequence[str]]) -> None:
    """Make the rules that lead from the table's chains to the ports. Raises OSError, with the words of nft(8)."""
    lines = []
    ending = f'fib daddr type local jump forward_ports comment "{_comment(conditions)}"'
    for chain in _GUARDS:
        lines.append(f"flush chain inet {table} {chain}")
        for version, family in _FAMILIES.items():
            condition = " ".join(conditions.get(version, ()))
            lines.append(f"add rule inet {table} {chain} meta nfproto {family} {condition} {ending}")
    try:
        run(Program("nft", tables.environ), ["-f", "-"], "\n".join([*lines, ""]))
    except IptablesError as error:
        raise IptablesError(error.errno or errno.EIO, f"conditions of the network: {error.strerror}") from None


def _comment(conditions: Mapping[int, Sequence[str]]) -> str:
    """Return the rules' comment, which differs for other conditions: a network may have had some before."""
    text = "\n".join(f"{version} {' '.join(conditions.get(version, ()))}" for version in _FAMILIES)
    return f"conditions {sha256(text.encode()).hexdigest()[:16]}"
