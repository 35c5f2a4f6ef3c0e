"""Changes to one nftables table, collected as messages, to be committed together.

Interface: nf_tables, as in include/uapi/linux/netfilter/nf_tables.h.
"""

import struct
from itertools import islice

from fast_stdlib.typing import Iterable, Iterator, NamedTuple
from netlink.nft_wire import Attributes, Element, commented, element_attributes, encode_message
from netlink.wire import NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL

# NFT_MSG_*
_NEW_TABLE, _DEL_TABLE = 0, 2
_NEW_CHAIN, _DEL_CHAIN = 3, 5
_NEW_RULE, _DEL_RULE = 6, 8
_NEW_SET, _DEL_SET = 9, 11
_NEW_ELEMENT, _DEL_ELEMENT = 12, 14
_NEW_OBJECT, _DEL_OBJECT = 18, 20

_NLM_F_NONREC = 0x100  # of a deletion: refuse (EBUSY) unless empty
_VERDICT_TYPE = 0xFFFFFF00 - (1 << 32)
_KEY_BYTE_ORDER, _VALUE_BYTE_ORDER = 0, 1  # NFTNL_UDATA_SET_*BYTEORDER
_INTERVALS, _MAP, _OBJECT_MAP = 1 << 2, 1 << 3, 1 << 6  # NFT_SET_INTERVAL, NFT_SET_MAP, NFT_SET_OBJECT
_COUNTER = 1  # NFT_OBJECT_COUNTER
_MOST_ELEMENTS = 128
"""In one message: the list of them is an attribute of less than 64 KiB, and an element has less than 500 bytes."""


class Hook(NamedTuple):
    """The hook of a base chain: its type (nat, filter), its number in the family, the priority."""

    type: str
    number: int
    priority: int


class KeyType(NamedTuple):
    """The type of a set's keys, or of a map's values: a data type of nft(8), the length in bytes, the byte order.

    Only nft(8) needs the number and the order, to show them (and does so wrongly without): 1 is that of the host,
    2 that of the network, 0 that of each part.
    """

    number: int
    length: int
    byte_order: int


ADDRESS_KEYS = {4: KeyType(7, 4, 2), 6: KeyType(8, 16, 2)}
"""ipv4_addr and ipv6_addr, by the version of IP."""
IFNAME_KEY = KeyType(41, 16, 1)


class NftRule(NamedTuple):
    """A rule in a chain: the handle to delete it by, the comment that nft(8) shows, its expressions as they came."""

    handle: bytes
    comment: str
    expressions: bytes = b""
    """See `netlink.nftables`."""


class Transaction:
    """Changes to one table, collected and then committed together.

    Adding an object that exists is not an error, except for the elements of a set.
    """

    def __init__(self, family: int, table: str) -> None:
        """Begin with no changes to table `table` of `family` (`netlink.nft_wire.INET`, …)."""
        self.messages: list[bytes] = []
        self._family = family
        self._table = table

    def add_table(self) -> None:
        """Create the table."""
        self._append(_NEW_TABLE, NLM_F_CREATE, (2, 0))

    def delete_table(self, *, contents: bool = False) -> None:
        """Delete the table: if it is empty (else EBUSY), or with `contents` all that is in it."""
        self._append(_DEL_TABLE, 0 if contents else _NLM_F_NONREC)

    def add_chain(self, chain: str, hook: Hook | None = None) -> None:
        """Create a chain, or with `hook` a base chain whose policy is to accept."""
        attributes: list[tuple[int, int | str | Attributes]] = [(3, chain)]
        if hook:
            attributes += [(7, hook.type), (4, [(1, hook.number), (2, hook.priority)])]
        self._append(_NEW_CHAIN, NLM_F_CREATE, *attributes)

    def delete_chain(self, chain: str) -> None:
        """Delete a chain with its rules, if no rule or element leads to it (else EBUSY)."""
        self._append(_DEL_CHAIN, 0, (3, chain))

    def set_rules(self, chain: str, *rules: Attributes) -> None:
        """Replace all rules of `chain` by `rules`. Each is a sequence of expressions."""
        self._append(_DEL_RULE, 0, (2, chain))
        for rule in rules:
            self.add_rule(chain, rule)

    def add_rule(self, chain: str, rule: Attributes, comment: str = "") -> None:
        """Append one rule, a sequence of expressions; `comment` is what nft(8) shows."""
        userdata = [(7, commented(comment))] if comment else []
        self._append(_NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, (2, chain), (4, rule), *userdata)

    def delete_rule(self, chain: str, rule: NftRule) -> None:
        """Delete one rule (else ENOENT)."""
        self._append(_DEL_RULE, 0, (2, chain), (3, rule.handle))

    def add_counter(self, name: str) -> None:
        """Create a named counter. The kernel knows how many elements of maps lead to it."""
        self._append(_NEW_OBJECT, NLM_F_CREATE, (2, name), (3, _COUNTER), (4, []))

    def delete_counter(self, name: str) -> None:
        """Delete a counter, if no element leads to it (else EBUSY)."""
        self._append(_DEL_OBJECT, 0, (2, name), (3, _COUNTER))

    def add_set(
        self, name: str, key: KeyType, *, verdicts: bool = False, counters: bool = False, value: KeyType | None = None
    ) -> None:
        """Create a set of `key`s, or with `verdicts`, `counters` or a type of `value` a map from keys to those."""
        attributes: list[tuple[int, int | str | bytes]] = [(2, name), (4, key.number), (5, key.length)]
        if verdicts:
            attributes += [(3, _MAP), (6, _VERDICT_TYPE), (7, 0)]
        if counters:
            attributes += [(3, _OBJECT_MAP), (15, _COUNTER)]
        orders = struct.pack("=BBI", _KEY_BYTE_ORDER, 4, key.byte_order)
        if value:
            attributes += [(3, _MAP), (6, value.number), (7, value.length)]
            orders += struct.pack("=BBI", _VALUE_BYTE_ORDER, 4, value.byte_order)
        self._append_set(*attributes, (13, orders))

    def add_interval_set(self, name: str, key: KeyType) -> None:
        """Create a set of intervals of `key`s."""
        orders = struct.pack("=BBI", _KEY_BYTE_ORDER, 4, key.byte_order)
        self._append_set((2, name), (4, key.number), (5, key.length), (3, _INTERVALS), (13, orders))

    def delete_set(self, name: str, *, elements: bool = False) -> None:
        """Delete a set that no rule uses and, without `elements`, that had none before the transaction (else EBUSY)."""
        self._append(_DEL_SET, 0 if elements else _NLM_F_NONREC, (2, name))

    def add_elements(self, name: str, elements: Iterable[Element]) -> None:
        """Add elements whose keys are not in the set yet (else EEXIST or EBUSY)."""
        for part in _parts(elements):
            self._append(_NEW_ELEMENT, NLM_F_CREATE | NLM_F_EXCL, (2, name), (3, element_attributes(part)))

    def delete_elements(self, name: str, elements: Iterable[Element]) -> None:
        """Delete elements by their keys (else ENOENT)."""
        for part in _parts(elements):
            keys = element_attributes(Element(element.key) for element in part)
            self._append(_DEL_ELEMENT, 0, (2, name), (3, keys))

    def flush_set(self, name: str) -> None:
        """Delete all elements of a set."""
        self._append(_DEL_ELEMENT, 0, (2, name))

    def _append_set(self, *attributes: tuple[int, int | str | bytes]) -> None:
        # The kernel requires the ID, although nothing in the transaction refers to it.
        self._append(_NEW_SET, NLM_F_CREATE, *attributes, (10, len(self.messages)))

    def _append(self, kind: int, flags: int, *attributes: tuple[int, int | str | bytes | Attributes]) -> None:
        self.messages.append(encode_message(kind, flags, self._family, [(1, self._table), *attributes]))


def _parts(elements: Iterable[Element]) -> Iterator[list[Element]]:
    remaining = iter(elements)
    while part := list(islice(remaining, _MOST_ELEMENTS)):
        yield part
