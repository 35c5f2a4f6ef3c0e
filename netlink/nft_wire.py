"""nf_tables messages as bytes, and back: attributes and set elements.

Wire format: include/uapi/linux/netfilter/nf_tables.h and nfnetlink.h; the records within user data are libnftnl's.
pyroute2 has message classes for this, too. But they load its event loop (60 ms of start-up), and take 100 µs to read
one set element, of which a listing has thousands.
"""

import struct

from fast_stdlib.typing import Iterable, Iterator, NamedTuple, Sequence
from netlink.wire import HEADER, attribute, items, message, string, values

SUBSYSTEM = 10  # NFNL_SUBSYS_NFTABLES
INET, IPV4, BRIDGE, IPV6 = 1, 2, 7, 10  # NFPROTO_*
DROP, ACCEPT, JUMP, GOTO, RETURN = 0, 1, -3, -4, -5  # NF_*, NFT_*

Attributes = Sequence[tuple[int, "int | str | bytes | Attributes"]]
"""Attributes by their numbers; a number is 32 bits in network order, a text ends in NUL, a sequence is a nest."""

_NFGENMSG = struct.Struct(">BBH")
_NUMBER = struct.Struct(">i")
_NESTED = 0x8000
_BODY = HEADER.size + _NFGENMSG.size

_COMMENT = 0  # NFTNL_UDATA_RULE_COMMENT, NFTNL_UDATA_SET_ELEM_COMMENT
_RECORD_HEADER = 2
# Attributes of an element, NFTA_SET_ELEM_*, and of its value, NFTA_DATA_* and NFTA_VERDICT_*.
_KEY, _DATA, _FLAGS, _USERDATA, _OBJECT = 1, 2, 3, 6, 9
_INTERVAL_END = 1  # NFT_SET_ELEM_INTERVAL_END
_VALUE, _VERDICT = 1, 2
_VERDICT_CODE, _VERDICT_CHAIN = 1, 2
_LIST_ITEM = 1


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
    """An element of a set, or of a map from keys to `goto CHAIN`, to counters or to other values.

    In a set of intervals, an element begins an interval at its key. With `is_end`, the key is the first behind one.
    """

    key: bytes
    comment: str = ""
    chain: str = ""
    counter: str = ""
    value: bytes = b""
    is_end: bool = False


def element_attributes(elements: Iterable[Element]) -> Attributes:
    """The content of NFTA_SET_ELEM_LIST_ELEMENTS."""
    return [(_LIST_ITEM, _element(element)) for element in elements]


def elements_in(nest: bytes, containing: bytes = b"") -> Iterator[Element]:
    """The elements in NFTA_SET_ELEM_LIST_ELEMENTS, only those in whose attributes `containing` occurs."""
    for _, item in items(nest):
        if containing not in item:
            continue
        attributes = values(item)
        content = values(attributes.get(_DATA, b""))
        target = values(content.get(_VERDICT, b""))
        yield Element(
            key=values(attributes[_KEY])[_VALUE],
            comment=comment_in(attributes.get(_USERDATA, b"")),
            chain=string(target.get(_VERDICT_CHAIN, b"")),
            counter=string(attributes.get(_OBJECT, b"")),
            value=content.get(_VALUE, b""),
            is_end=_FLAGS in attributes and bool(number(attributes[_FLAGS]) & _INTERVAL_END),
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


def commented(comment: str) -> bytes:
    """The user data of a rule or an element with this comment, which `comment_in` reads."""
    record = comment.encode() + b"\0"
    return bytes([_COMMENT, len(record)]) + record


def _element(element: Element) -> Attributes:
    attributes: list[tuple[int, int | bytes | Attributes]] = [(_KEY, [(_VALUE, element.key)])]
    if element.is_end:
        attributes.append((_FLAGS, _INTERVAL_END))
    if element.chain:
        target: Attributes = [(_VERDICT_CODE, GOTO), (_VERDICT_CHAIN, element.chain)]
        attributes.append((_DATA, [(_VERDICT, target)]))
    if element.value:
        attributes.append((_DATA, [(_VALUE, element.value)]))
    if element.comment:
        attributes.append((_USERDATA, commented(element.comment)))
    if element.counter:
        attributes.append((_OBJECT, element.counter.encode() + b"\0"))
    return attributes


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
