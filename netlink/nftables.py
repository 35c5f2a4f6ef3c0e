"""nftables by netlink: transactions of which all or nothing is done, and look-ups of single objects.

Interface: nf_tables, as in include/uapi/linux/netfilter/nf_tables.h. Nothing here is cached: what a table holds is
known only to the kernel, as other processes change it at the same time.
"""

import errno
import os
import struct
from collections.abc import Container, Iterable
from threading import Thread
from typing import NamedTuple

from netlink.closing import Closing
from netlink.nft_wire import (
    SUBSYSTEM,
    Attributes,
    Element,
    attributes_of,
    comment_in,
    element_attributes,
    elements_in,
    encode_message,
    number,
    text,
)
from netlink.socket import (
    NETLINK_NETFILTER,
    NLM_F_APPEND,
    NLM_F_CREATE,
    NLM_F_EXCL,
    DumpInterruptedError,
    NetlinkError,
    Socket,
)

__all__ = ["ATTEMPTS", "LOST_RACES", "Hook", "KeyType", "Rule", "Table", "Transaction"]

# NFT_MSG_*
_NEW_TABLE, _GET_TABLE, _DEL_TABLE = 0, 1, 2
_NEW_CHAIN, _GET_CHAIN, _DEL_CHAIN = 3, 4, 5
_NEW_RULE, _GET_RULE, _DEL_RULE = 6, 7, 8
_NEW_SET, _DEL_SET = 9, 11
_NEW_ELEMENT, _GET_ELEMENT, _DEL_ELEMENT = 12, 13, 14
_GET_GENERATION = 16
_DELETIONS = frozenset({_DEL_TABLE, _DEL_CHAIN, _DEL_RULE, _DEL_SET, _DEL_ELEMENT})

_NLM_F_NONREC = 0x100  # of a deletion: refuse (EBUSY) unless empty
_VERDICT_TYPE = 0xFFFFFF00 - (1 << 32)
_KEY_BYTE_ORDER = 0  # NFTNL_UDATA_SET_KEYBYTEORDER
_MAP = 1 << 3  # NFT_SET_MAP
_DUMP_ATTEMPTS = 10

LOST_RACES = frozenset({errno.ENOENT, errno.EEXIST, errno.EBUSY, errno.ERESTART})
"""How a transaction fails that was right for what was seen before it, but no longer for what there is."""

ATTEMPTS = 200
"""How often to look again. An attempt fails only because somebody else's succeeded, so as a rule few are needed."""


class Hook(NamedTuple):
    """Where packets enter a base chain: its type (nat, filter), the hook's number in its family, the priority."""

    type: str
    number: int
    priority: int


class KeyType(NamedTuple):
    """What the keys of a set are: a data type of nft(8), the key's length in bytes, its byte order.

    Only nft(8) needs the number and the order, to show the key (and does so wrongly without): 1 is that of the host,
    2 that of the network, 0 that of each part.
    """

    number: int
    length: int
    byte_order: int


class Rule(NamedTuple):
    """A rule in a chain: the handle to delete it by, and the comment that nft(8) shows."""

    handle: bytes
    comment: str


class Transaction:
    """Changes to one table, collected and then committed together.

    Adding what exists already is not an error, except for the elements of a set.
    """

    def __init__(self, family: int, table: str) -> None:
        """Begin with no changes to table `table` of `family` (`netlink.nft_wire.INET`, …)."""
        self.messages: list[bytes] = []
        self.deletes = False
        self._family = family
        self._table = table

    def add_table(self) -> None:
        """Create the table."""
        self._append(_NEW_TABLE, NLM_F_CREATE, (2, 0))

    def delete_table(self) -> None:
        """Delete the table, if it is empty (else EBUSY)."""
        self._append(_DEL_TABLE, _NLM_F_NONREC)

    def add_chain(self, chain: str, hook: Hook | None = None) -> None:
        """Create a chain, or with `hook` a base chain whose policy is to accept."""
        attributes: list[tuple[int, int | str | Attributes]] = [(3, chain)]
        if hook:
            attributes += [(7, hook.type), (4, [(1, hook.number), (2, hook.priority)])]
        self._append(_NEW_CHAIN, NLM_F_CREATE, *attributes)

    def delete_chain(self, chain: str) -> None:
        """Delete a chain with its rules, if nothing leads to it (else EBUSY)."""
        self._append(_DEL_CHAIN, 0, (3, chain))

    def set_rules(self, chain: str, *rules: Attributes) -> None:
        """Make `rules` all that there is in `chain`. Each is a sequence of expressions."""
        self._append(_DEL_RULE, 0, (2, chain))
        for rule in rules:
            self._append(_NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, (2, chain), (4, rule))

    def delete_rule(self, chain: str, rule: Rule) -> None:
        """Delete one rule (else ENOENT)."""
        self._append(_DEL_RULE, 0, (2, chain), (3, rule.handle))

    def add_set(self, name: str, key: KeyType, *, verdicts: bool = False) -> None:
        """Create a set of `key`s, or with `verdicts` a map from keys to verdicts."""
        attributes: list[tuple[int, int | str | bytes]] = [(2, name), (4, key.number), (5, key.length)]
        if verdicts:
            attributes += [(3, _MAP), (6, _VERDICT_TYPE), (7, 0)]
        attributes.append((13, struct.pack("=BBI", _KEY_BYTE_ORDER, 4, key.byte_order)))
        # The ID would serve to refer to the set within the transaction; it is obligatory all the same.
        self._append(_NEW_SET, NLM_F_CREATE, *attributes, (10, len(self.messages)))

    def delete_set(self, name: str) -> None:
        """Delete a set that has no elements and that no rule uses (else EBUSY)."""
        self._append(_DEL_SET, _NLM_F_NONREC, (2, name))

    def add_elements(self, name: str, elements: Iterable[Element]) -> None:
        """Add elements whose keys are not in the set yet (else EEXIST or EBUSY)."""
        self._append(_NEW_ELEMENT, NLM_F_CREATE | NLM_F_EXCL, (2, name), (3, element_attributes(elements)))

    def delete_elements(self, name: str, elements: Iterable[Element]) -> None:
        """Delete elements by their keys (else ENOENT)."""
        keys = element_attributes(Element(element.key) for element in elements)
        self._append(_DEL_ELEMENT, 0, (2, name), (3, keys))

    def _append(self, kind: int, flags: int, *attributes: tuple[int, int | str | bytes | Attributes]) -> None:
        self.deletes |= kind in _DELETIONS
        self.messages.append(encode_message(kind, flags, self._family, [(1, self._table), *attributes]))


class Table(Closing):
    """One table, present or not, in the network namespace that the calling thread is in."""

    _anything_deleted = False
    """By whatever table of this process: the kernel lets go of *any* socket only after what was deleted is freed."""

    def __init__(self, family: int, name: str) -> None:
        """Open a socket; to be closed, or used in a with statement."""
        self.family = family
        self.name = name
        self._socket = Socket(NETLINK_NETFILTER)

    def close(self) -> None:
        """Close the socket, in the background where that takes long."""
        if self._anything_deleted:
            # A grace period of RCU, 10 ms or more, in which the caller has better to do. The thread ends before the
            # process does.
            Thread(target=self._socket.close, name="close-nftables").start()
        else:
            self._socket.close()

    @classmethod
    def forget_deletions(cls) -> None:
        """Take it that nothing has been deleted for which closing a socket would wait."""
        cls._anything_deleted = False

    def transaction(self) -> Transaction:
        """Begin collecting changes."""
        return Transaction(self.family, self.name)

    def commit(self, transaction: Transaction, *, doing: str, generation: int | None = None) -> None:
        """Make the changes, all or none. Raises NetlinkError.

        With `generation` it raises ERESTART, having changed nothing, if any table of the namespace was changed since
        `generation()` returned that number. `doing` says in the error what was attempted.
        """
        Table._anything_deleted |= transaction.deletes
        self._socket.execute(transaction.messages, doing=doing, subsystem=SUBSYSTEM, generation=generation)

    def try_commit(
        self,
        transaction: Transaction,
        doing: str,
        lost_races: Container[int] = LOST_RACES,
        generation: int | None = None,
    ) -> bool:
        """Commit; False, having changed nothing, where somebody else was faster. Raises NetlinkError otherwise."""
        try:
            self.commit(transaction, doing=doing, generation=generation)
        except NetlinkError as error:
            if error.errno in lost_races:
                return False
            raise
        return True

    def generation(self) -> int:
        """Return a number that changes with every change to any table of the namespace."""
        request = encode_message(_GET_GENERATION, 0, 0, [])
        reply = self._socket.request(request, doing="read the generation of the firewall's rules")
        return number(attributes_of(reply.encoded)[1])

    def uses(self) -> int | None:
        """Return how many chains, sets and objects the table has; None when it does not exist."""
        attributes = self._look_up(_GET_TABLE, f"look up table {self.name}")
        return number(attributes[3]) if attributes else None

    def chain_uses(self, chain: str) -> int | None:
        """Return the number of the chain's rules and of what leads to it; None when it does not exist."""
        attributes = self._look_up(_GET_CHAIN, f"look up chain {chain}", (3, chain))
        return number(attributes[6]) if attributes else None

    def chains(self) -> list[str]:
        """Return the names of the table's chains; none when it does not exist. O(n) in those of the whole family."""
        if self.uses() is None:
            return []
        parts = self._list(_GET_CHAIN, "list chains")
        return [text(part[3]) for part in parts if text(part[1]) == self.name]

    def element(self, name: str, key: bytes) -> Element | None:
        """Return the element of set `name` that has this key. O(1)."""
        wanted = element_attributes([Element(key)])
        attributes = self._look_up(_GET_ELEMENT, f"look up an element of {name}", (2, name), (3, wanted))
        return next(elements_in(attributes[3])) if attributes else None

    def elements(self, name: str, comment: str = "") -> list[Element]:
        """Return all elements of set `name`, or those with this comment; none when it does not exist. O(n)."""
        parts = self._list(_GET_ELEMENT, f"list the elements of {name}", (2, name))
        found = (element for part in parts for element in elements_in(part.get(3, b""), comment.encode()))
        return [element for element in found if comment in {"", element.comment}]

    def rules(self, chain: str) -> list[Rule]:
        """Return the rules of `chain`; none when it does not exist."""
        parts = self._list(_GET_RULE, f"list the rules of {chain}", (2, chain))
        return [Rule(part[3], comment_in(part.get(7, b""))) for part in parts if part.get(2) == chain.encode() + b"\0"]

    def _look_up(self, kind: int, doing: str, *attributes: tuple[int, str | Attributes]) -> dict[int, bytes] | None:
        try:
            reply = self._socket.request(self._encoded(kind, *attributes), doing=doing)
        except NetlinkError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return attributes_of(reply.encoded)

    def _list(self, kind: int, doing: str, *attributes: tuple[int, str | Attributes]) -> list[dict[int, bytes]]:
        # A hundred plugins at once interrupt each other's listings, so the socket's own patience does not suffice.
        for attempt in range(_DUMP_ATTEMPTS):
            try:
                replies = self._socket.dump(self._encoded(kind, *attributes), doing=doing)
            except DumpInterruptedError:
                if attempt == _DUMP_ATTEMPTS - 1:
                    raise
            except NetlinkError as error:
                if error.errno == errno.ENOENT:
                    break
                raise
            else:
                return [attributes_of(reply.encoded) for reply in replies]
        return []

    def _encoded(self, kind: int, *attributes: tuple[int, str | Attributes]) -> bytes:
        return encode_message(kind, 0, self.family, [(1, self.name), *attributes])


# What a parent has deleted, as a server's rehearsal does, is none of a child's waiting.
os.register_at_fork(after_in_child=Table.forget_deletions)
