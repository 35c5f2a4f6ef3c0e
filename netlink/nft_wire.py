"""nf_tables messages as bytes, and back: attributes, rule expressions, set elements.

Wire format: include/uapi/linux/netfilter/nf_tables.h and nfnetlink.h; the records within user data are libnftnl's.
pyroute2 has message classes for this too, but they come with its event loop (60 ms of start-up) and take 100 µs to
read one set element, which a listing of thousands cannot afford.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network

from lean.typing import NamedTuple
from netlink.wire import HEADER, attribute, items, message, string, values

__all__ = [
    "BRIDGE",
    "DROP",
    "INET",
    "IPV4",
    "IPV6",
    "SUBSYSTEM",
    "Attributes",
    "Element",
    "attributes_of",
    "comment_in",
    "counted",
    "destination_outside",
    "element_attributes",
    "elements_in",
    "encode_message",
    "incoming_port",
    "masquerading",
    "matched",
    "number",
    "source",
    "source_ethernet",
    "verdict",
]

SUBSYSTEM = 10  # NFNL_SUBSYS_NFTABLES
INET, IPV4, BRIDGE, IPV6 = 1, 2, 7, 10  # NFPROTO_*
DROP, GOTO = 0, -4  # NF_DROP, NFT_GOTO

Attributes = Sequence[tuple[int, "int | str | bytes | Attributes"]]
"""Attributes by their numbers; a number is 32 bits in network order, a text ends in NUL, a sequence is a nest."""

_NFGENMSG = struct.Struct(">BBH")
_NUMBER = struct.Struct(">i")
_NESTED = 0x8000
_BODY = HEADER.size + _NFGENMSG.size

_COMMENT = 0  # NFTNL_UDATA_RULE_COMMENT, NFTNL_UDATA_SET_ELEM_COMMENT
_RECORD_HEADER = 2
# Attributes of an element, NFTA_SET_ELEM_*, and of its value, NFTA_DATA_* and NFTA_VERDICT_*.
_KEY, _DATA, _USERDATA, _OBJECT = 1, 2, 6, 9
_VALUE, _VERDICT = 1, 2
_VERDICT_CODE, _VERDICT_CHAIN = 1, 2
_LIST_ITEM = 1
_EXPRESSION_NAME, _EXPRESSION_DATA = 1, 2
_VERDICT_REGISTER, _REGISTER, _NEXT_REGISTER = 0, 1, 2  # a register holds 16 bytes
_IIFNAME, _NFPROTO = 6, 15  # NFT_META_*
_LINK_HEADER, _NETWORK_HEADER = 0, 1
_INVERTED = 1  # NFT_LOOKUP_F_INV
_EQUAL, _UNEQUAL = 0, 1  # NFT_CMP_*
_PROTOCOLS = {4: IPV4, 6: IPV6}
# Offset of the source address in the IP header, and the length of an address, in bytes.
_ADDRESSES = {4: (12, 4), 6: (8, 16)}
_ETHERNET_SOURCE = (6, 6)


def encode_message(kind: int, flags: int, family: int, attributes: Attributes) -> bytes:
    """A request of NFT_MSG type `kind`; the socket sets its sequence number."""
    return message(SUBSYSTEM << 8 | kind, _NFGENMSG.pack(family, 0, 0) + _encoded(attributes), flags)


def attributes_of(received: bytes) -> dict[int, bytes]:
    """The attributes of a received message."""
    return values(received, _BODY)


def number(value: bytes) -> int:
    """A 32-bit number."""
    return int(_NUMBER.unpack(value)[0])


class Element(NamedTuple):
    """An element of a set, of a map from keys to `goto CHAIN`, or of a map from keys to counters."""

    key: bytes
    comment: str = ""
    chain: str = ""
    counter: str = ""


def element_attributes(elements: Iterable[Element]) -> Attributes:
    """The content of NFTA_SET_ELEM_LIST_ELEMENTS."""
    return [(_LIST_ITEM, _element(element)) for element in elements]


def elements_in(nest: bytes, containing: bytes = b"") -> Iterator[Element]:
    """The elements in NFTA_SET_ELEM_LIST_ELEMENTS, only those in whose attributes `containing` occurs."""
    for _, item in items(nest):
        if containing not in item:
            continue
        attributes = values(item)
        target = values(values(attributes.get(_DATA, b"")).get(_VERDICT, b""))
        yield Element(
            key=values(attributes[_KEY])[_VALUE],
            comment=comment_in(attributes.get(_USERDATA, b"")),
            chain=string(target.get(_VERDICT_CHAIN, b"")),
            counter=string(attributes.get(_OBJECT, b"")),
        )


def comment_in(userdata: bytes) -> str:
    """The comment of a rule or an element, among the type-length-value records in its user data."""
    while len(userdata) > _RECORD_HEADER:
        kind, length = userdata[:_RECORD_HEADER]
        end = _RECORD_HEADER + length
        if kind == _COMMENT:
            return string(userdata[_RECORD_HEADER:end])
        userdata = userdata[end:]
    return ""


def source(version: int) -> Attributes:
    """`ip saddr` or `ip6 saddr`, to be looked up."""
    offset, length = _ADDRESSES[version]
    return [*_family_is(version), _loaded(_NETWORK_HEADER, offset, length)]


def destination_outside(*networks: IPv4Network | IPv6Network) -> Attributes:
    """`ip daddr != NETWORK` for each of one family's `networks`, or `ip6 daddr != NETWORK`."""
    comparisons = [_compared_destination(network) for network in networks]
    return [*_family_is(networks[0].version), *(expression for each in comparisons for expression in each)]


def incoming_port() -> Attributes:
    """`iifname`, to be looked up: in family bridge, the bridge's port that a frame came in by."""
    return [_expression("meta", (1, _REGISTER), (2, _IIFNAME))]


def source_ethernet() -> Attributes:
    """`. ether saddr` behind `incoming_port`, for a look-up of both."""
    return [_loaded(_LINK_HEADER, *_ETHERNET_SOURCE, register=_NEXT_REGISTER)]


def matched(name: str, *, absent: bool = False, verdicts: bool = False) -> Attributes:
    """`@NAME`, `!= @NAME` or `vmap @NAME`, for the key that the expressions before it have loaded."""
    attributes: list[tuple[int, int | str]] = [(1, name), (2, _REGISTER)]
    if verdicts:
        attributes.append((3, _VERDICT_REGISTER))
    if absent:
        attributes.append((5, _INVERTED))
    return [_expression("lookup", *attributes)]


def counted(version: int, name: str) -> Attributes:
    """`counter name ip saddr map @NAME` behind a match of the family: it matches if the map has the address."""
    return [_loaded(_NETWORK_HEADER, *_ADDRESSES[version]), _expression("objref", (3, _REGISTER), (4, name))]


def verdict(code: int) -> Attributes:
    """`drop`."""
    return [_expression("immediate", (1, _VERDICT_REGISTER), (2, [(_VERDICT, [(_VERDICT_CODE, code)])]))]


def masquerading() -> Attributes:
    """`masquerade`."""
    return [_expression("masq")]


def _element(element: Element) -> Attributes:
    attributes: list[tuple[int, bytes | Attributes]] = [(_KEY, [(_VALUE, element.key)])]
    if element.chain:
        target: Attributes = [(_VERDICT_CODE, GOTO), (_VERDICT_CHAIN, element.chain)]
        attributes.append((_DATA, [(_VERDICT, target)]))
    if element.comment:
        comment = element.comment.encode() + b"\0"
        attributes.append((_USERDATA, bytes([_COMMENT, len(comment)]) + comment))
    if element.counter:
        attributes.append((_OBJECT, element.counter.encode() + b"\0"))
    return attributes


def _family_is(version: int) -> Attributes:
    # `meta nfproto`: nft(8), too, puts it before a match on an IP header in a table of family inet.
    return [_expression("meta", (1, _REGISTER), (2, _NFPROTO)), _compared(bytes([_PROTOCOLS[version]]))]


def _loaded(header: int, offset: int, length: int, register: int = _REGISTER) -> tuple[int, Attributes]:
    return _expression("payload", (1, register), (2, header), (3, offset), (4, length))


def _masked(mask: bytes) -> tuple[int, Attributes]:
    nothing = bytes(len(mask))
    operands = (4, [(_VALUE, mask)]), (5, [(_VALUE, nothing)])  # (register & mask) ^ nothing
    return _expression("bitwise", (1, _REGISTER), (2, _REGISTER), (3, len(mask)), *operands)


def _compared_destination(network: IPv4Network | IPv6Network) -> Attributes:
    offset, length = _ADDRESSES[network.version]
    load = _loaded(_NETWORK_HEADER, offset + length, length)
    mask = [] if network.prefixlen == network.max_prefixlen else [_masked(network.netmask.packed)]
    return [load, *mask, _compared(network.network_address.packed, _UNEQUAL)]


def _compared(value: bytes, comparison: int = _EQUAL) -> tuple[int, Attributes]:
    return _expression("cmp", (1, _REGISTER), (2, comparison), (3, [(_VALUE, value)]))


def _expression(name: str, *attributes: tuple[int, "int | str | bytes | Attributes"]) -> tuple[int, Attributes]:
    return _LIST_ITEM, [(_EXPRESSION_NAME, name), (_EXPRESSION_DATA, attributes)]


def _encoded(attributes: Attributes) -> bytes:
    parts = []
    for kind, value in attributes:
        match value:
            case int():
                payload = _NUMBER.pack(value)
            case str():
                payload = value.encode() + b"\0"
            case bytes():
                payload = value
            case _:
                payload = _encoded(value)
                kind |= _NESTED  # noqa: PLW2901 - the flag belongs to the number
        parts.append(attribute(kind, payload))
    return b"".join(parts)
