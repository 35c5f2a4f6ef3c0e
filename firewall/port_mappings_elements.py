"""The elements of `firewall.port_mappings_nft`: each is named by a word, looked up, and listed for its owner.

The list of owners has the words of an attachment's elements in its comments. So DEL finds them without a result of
ADD. If another container has a port of the host, an ADD is refused, with the holder's name.
"""

from fast_stdlib.contextlib import suppress
from fast_stdlib.hashing import sha256
from fast_stdlib.ipaddress import ip_address
from fast_stdlib.typing import Final, Iterable, NamedTuple
from firewall.owner import Owner, quoted, unquoted
from firewall.port_mapping import PROTOCOLS, ForwardedPort, Forwarding
from firewall.tables import COMMENT_MAX, OWNERS, owner_key
from netlink.netfilter import LookUp, Netfilter
from netlink.nft_wire import INET, Element
from netlink.nftables import NftTable
from skel import CniError, Code

ATTACHMENTS: Final = "attachments"
"""The counter that all elements of the list of owners lead to: the kernel counts them."""
PORTS, ADDRESS_PORTS = "ports", "address_ports"
"""Maps, one for each version of IP: of ports of all addresses of the host, and of single ones."""
MASQUERADE, MASQUERADE_ALL = "masquerade", "masquerade_all"
"""Sets, likewise: of pods whose own packets are masqueraded, and of pods all of whose packets are."""
FORWARD: Final = "forward_ports"
CHAINS: Final = ("prerouting", "output", "postrouting", FORWARD)
VERSIONS: Final = (4, 6)
OBJECTS: Final = 4 * len(VERSIONS) + len(CHAINS) + 2
"""Maps, sets and chains of the table, the list of owners and its counter."""
_TABLE: Final = "cni_harness_portmap"
_LENGTHS = {4: 4, 6: 16}
"""Bytes of an address."""
_PARTS_MAX: Final = 100_000
_QUESTIONS: Final = 64
"""Look-ups in one system call: their answers fit into the socket's receive buffer."""


class ElementPlace(NamedTuple):
    """The place of an element: the set or map, and the key."""

    name: str
    key: bytes


def open_table(netfilter: Netfilter, network: str = "") -> NftTable:
    """Return the table, or with `network` that of a network with conditions of its own; nothing is asked yet."""
    suffix = f"_{sha256(network.encode()).hexdigest()[:12]}" if network else ""
    return NftTable(netfilter, INET, _TABLE + suffix)


def words(forwarding: Forwarding) -> dict[str, bytes]:
    """Return the words for all elements of an attachment, each with the element's value."""
    found = {_word(each): each.address.packed + _packed_port(each.container_port) for each in forwarding.mappings}
    if forwarding.snat:
        name = MASQUERADE_ALL if forwarding.masquerade_all else MASQUERADE
        for address, interface in forwarding.interfaces.items():
            found[f"{name}@{address}%{quoted(interface)}"] = b""
    return found


def _word(mapping: ForwardedPort) -> str:
    host = mapping.host_address
    where = str(mapping.address.version) if host is None else f"@{host}"
    return f"{mapping.host_port}/{mapping.protocol}{where}"


def place_of(word: str) -> ElementPlace:
    """Return the place of the element that a word names. Raises ValueError for another program's word."""
    head, _, rest = word.partition("@")
    if head in {MASQUERADE, MASQUERADE_ALL}:
        text, _, ifname = rest.partition("%")
        address = ip_address(text)
        return ElementPlace(f"{head}{address.version}", address.packed + unquoted(ifname).encode().ljust(16, b"\0"))
    port, _, protocol = head.partition("/")
    if rest:
        address = ip_address(rest)
        return ElementPlace(f"{ADDRESS_PORTS}{address.version}", address.packed + _packed(protocol, port))
    return ElementPlace(f"{PORTS}{int(protocol[-1:])}", _packed(protocol[:-1], port))


def rivals_of(mapping: ForwardedPort) -> tuple[str, bytes]:
    """Return the map with the ports of single addresses, and the end of the key of this port."""
    return f"{ADDRESS_PORTS}{mapping.address.version}", _packed(mapping.protocol, str(mapping.host_port))


def general_place(mapping: ForwardedPort) -> ElementPlace:
    """Return the place of the same port on all addresses of the host."""
    return place_of(_word(mapping._replace(host_address=None)))


def mapping_in(place: ElementPlace, value: bytes) -> ForwardedPort | None:
    """Return the mapping that an element is; None for an element of another kind."""
    if place.name[:-1] not in {PORTS, ADDRESS_PORTS}:
        return None
    length = _LENGTHS[int(place.name[-1])]
    numbers = {number: name for name, number in PROTOCOLS.items()}
    host, protocol, port = place.key[:-8], place.key[-8], int.from_bytes(place.key[-4:-2])
    if protocol not in numbers or len(value) < length + 2:
        return None
    address, container_port = ip_address(value[:length]), int.from_bytes(value[length : length + 2])
    return ForwardedPort(numbers[protocol], port, address, container_port, ip_address(host) if host else None)


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
        if comments and len(comments[-1]) + len(word) < COMMENT_MAX:
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


class SeenPorts:
    """The answers to questions about an owner and elements; all belong to `generation`, or to a later one."""

    def __init__(self, netfilter: Netfilter, table: NftTable, owner: Owner, wanted: Iterable[str] = ()) -> None:
        """Ask for the chains, for the list of the owner, and for its elements and those of `wanted`.

        Raises NetlinkError.
        """
        self._netfilter = netfilter
        self._table = table
        label = owner.label()
        generation, uses = table.generation_question(), table.uses_question()
        counter = table.counter_question(ATTACHMENTS)
        chains = {name: table.chain_question(name) for name in CHAINS}
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
        self.elements: dict[ElementPlace, Element] = {}
        """The elements in places of `wanted` and of the owner's words; another owner may have them."""
        places = []
        for word in (*self.words(), *wanted):
            with suppress(ValueError):  # written by another program
                places.append(place_of(word))
        self.look(places)

    def words(self) -> list[str]:
        """Return the words that the owner's elements list."""
        return [word for element in self.listed for word in element.comment.split()[1:]]

    def look(self, places: Iterable[ElementPlace]) -> None:
        """Look up the elements in more places."""
        asked = {place: self._table.element_question(*place) for place in dict.fromkeys(places)}
        if self.uses is not None:
            self._ask(list(asked.values()))
        self.elements |= {place: question.found for place, question in asked.items() if question.found}

    def _ask(self, questions: list[LookUp[Element]]) -> None:
        for start in range(0, len(questions), _QUESTIONS):
            self._netfilter.look_up(*questions[start : start + _QUESTIONS])


def is_elsewhere(element: Element, owner: Owner) -> bool:
    """Tell whether an element is of another attachment of the owner's container, which may keep it."""
    its = Owner.from_label(element.comment)
    # In a label, the container ID may be shortened.
    return its is not None and its != owner and its.label().split("/")[1] == owner.label().split("/")[1]


def is_stale(element: Element, value: bytes) -> bool:
    """Tell whether an element leads to the address of the pod: its owner is gone, since the address was reused."""
    return not value or element.value[:-4] == value[:-4]


def refuse_taken(table: NftTable, seen: SeenPorts, owner: Owner, forwarding: Forwarding) -> None:
    """Raise CniError (999) if another container has one of the ports."""
    for mapping in forwarding.mappings:
        wanted = words(Forwarding(mappings=[mapping], snat=False))
        ((word, value),) = wanted.items()
        for place in (place_of(word), general_place(mapping)):
            present = seen.elements.get(place)
            if present and not _is_own(present, owner) and not is_stale(present, value):
                raise _taken(mapping, place, present)
    refuse_rivals(table, owner, forwarding, seen)


def refuse_rivals(table: NftTable, owner: Owner, forwarding: Forwarding, seen: SeenPorts | None = None) -> None:
    """Raise CniError (999) if another container has a port, that the pod gets on all addresses, on one of them."""
    general = [mapping for mapping in forwarding.mappings if mapping.host_address is None]
    if not general or (seen is not None and seen.uses is None):
        return
    rivals = {name: table.elements(name) for name in {rivals_of(mapping)[0] for mapping in general}}
    for mapping in general:
        name, ending = rivals_of(mapping)
        for present in rivals[name]:
            if not present.key.endswith(ending) or _is_own(present, owner):
                continue
            if present.value[:-4] != mapping.address.packed:
                raise _taken(mapping, ElementPlace(name, present.key), present)


def _is_own(element: Element, owner: Owner) -> bool:
    return element.comment == owner.label() or is_elsewhere(element, owner)


def _taken(mapping: ForwardedPort, place: ElementPlace, element: Element) -> CniError:
    its = mapping_in(place, element.value)
    held = its.described() if its else "it"
    holder = Owner.from_label(element.comment)
    who = f'container "{holder.container_id}" of network "{holder.network}"' if holder else f'"{element.comment}"'
    return CniError(Code.INTERNAL, f"host port {mapping.described()} is taken: {who} has {held}")
