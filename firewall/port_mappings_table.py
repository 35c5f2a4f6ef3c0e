"""The table of `firewall.port_mappings_nft`: its objects are looked up, made and removed.

Each element of a map or set is named by a word: the list of owners has the words of an attachment's elements in its
comments, so they are found without a result of ADD.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from ipaddress import IPv4Network, ip_address

from firewall.owner import Owner, quoted, unquoted
from firewall.owner_key import OWNER_KEY, OWNERS, owner_key
from firewall.port_mapping import PROTOCOLS, Forwarding, PortMapping
from lean.hashing import sha256
from lean.typing import Final, NamedTuple
from netlink.nft_expressions import (
    IIFNAME,
    L4PROTO,
    OIFNAME,
    WORD,
    destination,
    destination_port,
    family_is,
    is_destination_local,
    is_destination_rewritten,
    masquerading,
    matched,
    meta,
    rewrite_destination,
    source_within,
    verdict,
)
from netlink.nft_wire import INET, JUMP, Attributes, Element
from netlink.nftables import Chain, Hook, KeyType, LookUp, Netfilter, Table, Transaction

__all__ = [
    "ATTACHMENTS",
    "OBJECTS",
    "Place",
    "Seen",
    "general_place",
    "is_whole",
    "listing",
    "mapping_in",
    "open_table",
    "parts_behind",
    "place_of",
    "restore",
    "rivals_of",
    "words",
]

ATTACHMENTS: Final = "attachments"
"""The counter that all elements of the list of owners lead to: the kernel counts them."""
_TABLE: Final = "cni_harness_portmap"
_PORTS, _ADDRESS_PORTS = "ports", "address_ports"
_MASQUERADE, _MASQUERADE_ALL = "masquerade", "masquerade_all"
_FORWARD: Final = "forward_ports"
_HOOKS = {
    "prerouting": Hook("nat", 0, -100),  # NF_INET_PRE_ROUTING; priority dstnat
    "output": Hook("nat", 3, -100),  # NF_INET_LOCAL_OUT
    "postrouting": Hook("nat", 4, 100),  # NF_INET_POST_ROUTING; priority srcnat
}
_GUARDS = ("prerouting", "output")
_VERSIONS = (4, 6)
_LOCALHOST = IPv4Network("127.0.0.0/8")

# Data types of nft(8): a concatenation has 6 bits for each part, and each part fills multiples of 4 bytes.
_ADDRESS = {4: KeyType(7, 4, 2), 6: KeyType(8, 16, 2)}
_PROTOCOL, _PORT, _IFNAME = KeyType(12, 4, 2), KeyType(13, 4, 2), KeyType(41, 16, 1)
_COMMENT_MAX: Final = 125
"""Bytes. nft(8) refuses comments of more than 128, and so could not load its own output."""
_PARTS_MAX: Final = 100_000
_QUESTIONS: Final = 64
"""Look-ups in one system call: their answers fit into the socket's receive buffer."""


def _concatenated(*parts: KeyType) -> KeyType:
    number = 0
    for part in parts:
        number = number << 6 | part.number
    return KeyType(number, sum(part.length for part in parts), 0)


_MAPS = {
    **{f"{_PORTS}{version}": (_concatenated(_PROTOCOL, _PORT), version) for version in _VERSIONS},
    **{
        f"{_ADDRESS_PORTS}{version}": (_concatenated(_ADDRESS[version], _PROTOCOL, _PORT), version)
        for version in _VERSIONS
    },
}
_SETS = {
    f"{name}{version}": _concatenated(_ADDRESS[version], _IFNAME)
    for name in (_MASQUERADE, _MASQUERADE_ALL)
    for version in _VERSIONS
}
OBJECTS: Final = len(_MAPS) + len(_SETS) + len(_HOOKS) + 3
"""Sets, chains and counters of the table; besides those, the list of owners, its counter and `forward_ports`."""


class Place(NamedTuple):
    """Where an element is: the set or map, and the key."""

    name: str
    key: bytes


def open_table(netfilter: Netfilter, network: str = "") -> Table:
    """Return the table, or with `network` that of a network with conditions of its own; nothing is asked yet."""
    suffix = f"_{sha256(network.encode()).hexdigest()[:12]}" if network else ""
    return Table(netfilter, INET, _TABLE + suffix)


def words(forwarding: Forwarding) -> dict[str, bytes]:
    """Return the words for all elements of an attachment, each with the element's value."""
    found = {_word(mapping): _value(mapping) for mapping in forwarding.mappings}
    if forwarding.snat:
        name = _MASQUERADE_ALL if forwarding.masquerade_all else _MASQUERADE
        for address, interface in forwarding.interfaces.items():
            found[f"{name}@{address}%{quoted(interface)}"] = b""
    return found


def _word(mapping: PortMapping) -> str:
    host = mapping.host_address
    where = str(mapping.address.version) if host is None else f"@{host}"
    return f"{mapping.host_port}/{mapping.protocol}{where}"


def _value(mapping: PortMapping) -> bytes:
    return mapping.address.packed + _packed_port(mapping.container_port)


def place_of(word: str) -> Place:
    """Return the place of the element that a word names. Raises ValueError for another program's word."""
    head, _, rest = word.partition("@")
    if head in {_MASQUERADE, _MASQUERADE_ALL}:
        text, _, ifname = rest.partition("%")
        address = ip_address(text)
        return Place(f"{head}{address.version}", address.packed + unquoted(ifname).encode().ljust(16, b"\0"))
    port, _, protocol = head.partition("/")
    if rest:
        address = ip_address(rest)
        return Place(f"{_ADDRESS_PORTS}{address.version}", address.packed + _packed(protocol, port))
    return Place(f"{_PORTS}{int(protocol[-1:])}", _packed(protocol[:-1], port))


def rivals_of(mapping: PortMapping) -> tuple[str, bytes]:
    """Return the map with the ports of single addresses, and the end of the key of this port."""
    return f"{_ADDRESS_PORTS}{mapping.address.version}", _packed(mapping.protocol, str(mapping.host_port))


def general_place(mapping: PortMapping) -> Place:
    """Return the place of the same port on all addresses of the host."""
    return place_of(_word(mapping._replace(host_address=None)))


def mapping_in(place: Place, value: bytes) -> PortMapping | None:
    """Return the mapping that an element is; None for an element of another kind."""
    if place.name not in _MAPS:
        return None
    version = _MAPS[place.name][1]
    length = _ADDRESS[version].length
    numbers = {number: name for name, number in PROTOCOLS.items()}
    host, protocol, port = place.key[:-8], place.key[-8], int.from_bytes(place.key[-4:-2])
    if protocol not in numbers or len(value) < length + 2:
        return None
    address, container_port = ip_address(value[:length]), int.from_bytes(value[length : length + 2])
    return PortMapping(numbers[protocol], port, address, container_port, ip_address(host) if host else None)


def _packed(protocol: str, port: str) -> bytes:
    if protocol not in PROTOCOLS:
        raise ValueError(protocol)
    return bytes([PROTOCOLS[protocol], 0, 0, 0]) + _packed_port(int(port))


def _packed_port(port: int) -> bytes:
    return port.to_bytes(2) + bytes(2)


def listing(owner: Owner, listed: Iterable[str]) -> list[Element]:
    """Return the elements that list an owner's words: as many as their comments need."""
    label = owner.label()
    comments: list[str] = []
    for word in listed:
        if comments and len(comments[-1]) + len(word) < _COMMENT_MAX:
            comments[-1] += f" {word}"
        else:
            comments.append(word)
    # An element tells how many parts follow it.
    count = len(comments)
    return [
        Element(owner_key(label, part), f"{count - part - 1} {comment}", counter=ATTACHMENTS)
        for part, comment in enumerate(comments)
    ]


def parts_behind(first: Element) -> int:
    """Return how many elements follow the first of an owner's list; 0 if another program has written it."""
    count = first.comment.partition(" ")[0]
    return min(int(count), _PARTS_MAX) if count.isdecimal() else 0


class Seen:
    """The answers to questions about an owner and elements; all belong to `generation`, or to a later one."""

    def __init__(self, netfilter: Netfilter, table: Table, owner: Owner, wanted: Iterable[str] = ()) -> None:
        """Ask for the chains, for the list of the owner, and for its elements and those of `wanted`.

        Raises NetlinkError.
        """
        self._netfilter = netfilter
        self._table = table
        label = owner.label()
        generation, uses = table.generation_question(), table.uses_question()
        counter = table.counter_question(ATTACHMENTS)
        chains = {name: table.chain_question(name) for name in (*_HOOKS, _FORWARD)}
        first = table.element_question(OWNERS, owner_key(label))
        netfilter.look_up(generation, uses, counter, first, *chains.values())
        self.generation = generation.found or 0
        self.uses = uses.found
        """The number of sets, chains and counters; None if there is no table."""
        self.attachments = counter.found or 0
        """The number of elements in the list of owners."""
        self.chains = {name: question.found for name, question in chains.items()}
        self.listed: list[Element] = [first.found] if first.found else []
        """The elements that list the owner's words."""
        more = parts_behind(first.found) if first.found else 0
        questions = [table.element_question(OWNERS, owner_key(label, part + 1)) for part in range(more)]
        self._ask(questions)
        self.listed += [question.found for question in questions if question.found]
        self.elements: dict[Place, Element] = {}
        """The elements in places of `wanted` and of the owner's words; another owner may have them."""
        self.look(_place for word in (*self.words(), *wanted) for _place in _places(word))

    def words(self) -> list[str]:
        """Return the words that the owner's elements list."""
        return [word for element in self.listed for word in element.comment.split()[1:]]

    def look(self, places: Iterable[Place]) -> None:
        """Look up the elements in more places."""
        asked = {place: self._table.element_question(*place) for place in dict.fromkeys(places)}
        if self.uses is not None:
            self._ask(list(asked.values()))
        self.elements |= {place: question.found for place, question in asked.items() if question.found}

    def _ask(self, questions: list[LookUp[Element]]) -> None:
        for start in range(0, len(questions), _QUESTIONS):
            self._netfilter.look_up(*questions[start : start + _QUESTIONS])


def _places(word: str) -> Iterable[Place]:
    with suppress(ValueError):  # written by another program
        yield place_of(word)


def is_whole(table: Table, seen: Seen, guards: int = 1) -> bool:
    """Tell whether the chains have their hooks and rules; `guards` is the number of those that the first two have."""
    if seen.uses is None or seen.uses < OBJECTS:
        return False
    expected = {name: guards if name in _GUARDS else len(_RULES[name]) for name in _HOOKS}
    hooked = all((chain := seen.chains[name]) and chain.hook == hook for name, hook in _HOOKS.items())
    forward = seen.chains[_FORWARD]
    return (
        hooked
        and forward is not None
        and _has(table, _FORWARD, forward, len(_RULES[_FORWARD]), jumps=guards * len(_GUARDS))
        and all(_has(table, name, seen.chains[name], count) for name, count in expected.items())
    )


def _has(table: Table, name: str, chain: Chain | None, rules: int, jumps: int = 0) -> bool:
    # While another process replaces all rules, the kernel counts too few uses for a moment.
    return chain is not None and (chain.uses == rules + jumps or len(table.rules(name)) == rules)


def restore(transaction: Transaction, seen: Seen, *, guards: bool = True) -> None:
    """Make all objects and rules that are missing; without `guards`, but for the rules of the first two chains."""
    transaction.add_table()
    transaction.add_counter(ATTACHMENTS)
    transaction.add_set(OWNERS, OWNER_KEY, counters=True)
    for name, (key, version) in _MAPS.items():
        transaction.add_set(name, key, value=_concatenated(_ADDRESS[version], _PORT))
    for name, key in _SETS.items():
        transaction.add_set(name, key)
    for name, hook in _HOOKS.items():
        chain = seen.chains[name]
        if chain and chain.hook != hook:
            transaction.delete_chain(name)
    transaction.add_chain(_FORWARD)
    transaction.set_rules(_FORWARD, *_RULES[_FORWARD])
    for name, hook in _HOOKS.items():
        transaction.add_chain(name, hook)
        if guards or name not in _GUARDS:
            transaction.set_rules(name, *_RULES[name])


def _forwarding_rules() -> list[Attributes]:
    rules: list[Attributes] = []
    for version in _VERSIONS:
        words_of_address = _ADDRESS[version].length // 4
        ports = [*meta(L4PROTO, WORD), *destination_port(WORD + 1)]
        address_ports = [
            *destination(version),
            *meta(L4PROTO, WORD + words_of_address),
            *destination_port(WORD + words_of_address + 1),
        ]
        for name, key in ((_ADDRESS_PORTS, address_ports), (_PORTS, ports)):
            look_up = matched(f"{name}{version}", values=True)
            rules.append([*family_is(version), *key, *look_up, *rewrite_destination(version)])
    return rules


def _masquerading_rules() -> list[Attributes]:
    rules: list[Attributes] = []
    for version in _VERSIONS:
        dnat = [*family_is(version), *is_destination_rewritten()]
        ifname = WORD + _ADDRESS[version].length // 4
        # By the interface that the pod is on: its own packets, and those of its neighbours on a bridge, who would get
        # the answer from an address that they did not ask.
        for name, key in ((_MASQUERADE, IIFNAME), (_MASQUERADE_ALL, OIFNAME)):
            pod = [*destination(version), *meta(key, ifname), *matched(f"{name}{version}")]
            rules.append([*dnat, *pod, *masquerading()])
    to_pod = [*destination(4), *meta(OIFNAME, WORD + 1), *matched(f"{_MASQUERADE}4")]
    rules.append([*family_is(4), *is_destination_rewritten(), *source_within(_LOCALHOST), *to_pod, *masquerading()])
    return rules


_GUARD = [*is_destination_local(), *verdict(JUMP, _FORWARD)]
_RULES: Mapping[str, list[Attributes]] = {
    "prerouting": [_GUARD],
    "output": [_GUARD],
    _FORWARD: _forwarding_rules(),
    "postrouting": _masquerading_rules(),
}
