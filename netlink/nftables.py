"""nftables by netlink: transactions of which all or nothing is done, and look-ups of single objects.

Interface: nf_tables, as in include/uapi/linux/netfilter/nf_tables.h. Nothing here is cached: what a table holds is
known only to the kernel, as other processes change it at the same time.
"""

import errno
import os
from collections import deque
from collections.abc import Container
from typing import ClassVar, NamedTuple

from netlink.closing import Closing
from netlink.nft_transaction import Hook, KeyType, Rule, Transaction
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
    values,
)
from netlink.socket import NETLINK_NETFILTER, DumpInterruptedError, NetlinkError, Socket

__all__ = ["ATTEMPTS", "LOST_RACES", "Chain", "Hook", "KeyType", "Rule", "Table", "Transaction"]

# NFT_MSG_*
_GET_TABLE, _GET_CHAIN, _GET_RULE, _GET_SET, _GET_ELEMENT, _GET_GENERATION = 1, 4, 7, 10, 13, 16
_DUMP_ATTEMPTS = 10
_FEW_USES = 16
"""A chain of ours with more uses than rules that it could have is in use: its rules need not be counted."""
_SET_ASIDE_MAX = 16
"""More than one DEL opens; a process that lives on keeps no more descriptors than these."""

LOST_RACES = frozenset({errno.ENOENT, errno.EEXIST, errno.EBUSY, errno.ERESTART})
"""How a transaction fails that was right for what was seen before it, but no longer for what there is."""

ATTEMPTS = 200
"""How often to look again. An attempt fails only because somebody else's succeeded, so as a rule few are needed."""


class Chain(NamedTuple):
    """A chain: the number of its rules and of what leads to it; the hook of a base chain."""

    uses: int
    hook: Hook | None


class Table(Closing):
    """One table, present or not, in the network namespace that the calling thread is in."""

    _anything_deleted = False
    """By whatever table of this process: the kernel lets go of *any* socket only after what was deleted is freed."""

    _set_aside: ClassVar[deque[Socket]] = deque()
    """Sockets that no table uses any more, still open."""

    def __init__(self, family: int, name: str) -> None:
        """Open a socket; to be closed, or used in a with statement."""
        self.family = family
        self.name = name
        self._socket = Socket(NETLINK_NETFILTER)

    def close(self) -> None:
        """Close the socket, or set it aside if closing would wait for a deletion."""
        if not self._anything_deleted:
            self._socket.close()
            return
        # The wait is a grace period of RCU, 10 ms or more. Sockets set aside close with the process, which is as a
        # rule after that period.
        Table._set_aside.append(self._socket)
        if len(Table._set_aside) > _SET_ASIDE_MAX:
            Table._set_aside.popleft().close()

    @classmethod
    def close_set_aside(cls) -> None:
        """Close the sockets set aside, which waits until the kernel has freed the deleted objects."""
        while cls._set_aside:
            cls._set_aside.popleft().close()
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

    def chain(self, name: str) -> Chain | None:
        """Return the chain of that name, or None."""
        attributes = self._look_up(_GET_CHAIN, f"look up chain {name}", (3, name))
        if attributes is None:
            return None
        where = values(attributes.get(4, b""))
        hook = Hook(text(attributes[7]), number(where[1]), number(where[2])) if where else None
        return Chain(number(attributes[6]), hook)

    def chain_uses(self, name: str) -> int | None:
        """Return the number of the chain's rules and of what leads to it; None when it does not exist."""
        chain = self.chain(name)
        return chain.uses if chain else None

    def chains(self) -> list[str]:
        """Return the names of the table's chains; none when it does not exist. O(n) in those of the whole family."""
        if self.uses() is None:
            return []
        parts = self._list(_GET_CHAIN, "list chains")
        return [text(part[3]) for part in parts if text(part[1]) == self.name]

    def sets(self) -> list[str]:
        """Return the names of the table's sets and maps; none when it does not exist."""
        return [text(part[2]) for part in self._list(_GET_SET, "list sets")]

    def is_unused(self, chain: str) -> bool:
        """Tell whether a chain exists and nothing leads to it."""
        uses = self.chain_uses(chain)
        return uses is not None and uses <= _FEW_USES and uses == len(self.rules(chain))

    def remove_if_empty(self, chains: Container[str], sets: Container[str]) -> None:
        """Delete the table with these chains and sets, unless it has others or any of them is in use."""
        present_chains, present_sets = self.chains(), self.sets()
        if not all(chain in chains for chain in present_chains) or not all(name in sets for name in present_sets):
            return
        transaction = self.transaction()
        for chain in present_chains:
            transaction.delete_chain(chain)
        for name in present_sets:
            transaction.delete_set(name)
        transaction.delete_table()
        # The kernel decides: it refuses to delete a chain or set that has come into use since the look-up.
        self.try_commit(transaction, f"delete table {self.name}")

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


# A server's rehearsal deletes. Its workers must not wait for that, and its sockets would keep its namespaces.
os.register_at_fork(before=Table.close_set_aside)
