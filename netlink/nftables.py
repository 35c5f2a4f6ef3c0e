"""nftables by netlink: transactions of which all or nothing is done, and look-ups of single objects.

Of rules of other programs, expressions are read as far as a few questions need it. iptables makes its own targets as
expressions, too.

Interface: nf_tables, as in include/uapi/linux/netfilter/nf_tables.h. Nothing here is cached, since other
processes change the tables at the same time.
"""

import errno

from fast_stdlib.typing import Callable, Container, Iterator, NamedTuple, TypeVar
from netlink.netfilter import LookUp, Netfilter
from netlink.nft_transaction import Hook, NftRule, Transaction
from netlink.nft_wire import (
    ACCEPT,
    DROP,
    Attributes,
    Element,
    attributes_of,
    comment_in,
    element_attributes,
    elements_in,
    encode_message,
    number,
)
from netlink.wire import DumpInterruptedError, NetlinkError, items, string, values

T = TypeVar("T")

# NFT_MSG_*
_GET_TABLE, _GET_CHAIN, _GET_RULE, _GET_SET, _GET_ELEMENT, _GET_GENERATION, _GET_OBJECT = 1, 4, 7, 10, 13, 16, 19
_COUNTER = 1  # NFT_OBJECT_COUNTER
_POLICY = 5  # NFTA_CHAIN_POLICY
_DUMP_ATTEMPTS = 10
_FEW_USES = 16
"""A chain of ours with more uses than rules that it could have is in use: its rules need not be counted."""

LOST_RACES = frozenset({errno.ENOENT, errno.EEXIST, errno.EBUSY, errno.ERESTART})
"""Errors of a transaction whose table another process has changed since the look-up before it."""

ATTEMPTS = 200
"""How often to look again. An attempt fails only because another's succeeded, so as a rule few are needed."""

_EXPRESSION_NAME, _EXPRESSION_DATA = 1, 2  # NFTA_EXPR_*
_IMMEDIATE_DATA = 2
_VERDICT, _VERDICT_CODE = 2, 1
_TARGET_NAME = 1
_MATCH_NAME, _MATCH_INFO = 1, 3  # NFTA_MATCH_*
_COMPARED_DATA = 3  # NFTA_CMP_DATA
_DATA_VALUE = 1


class NftChain(NamedTuple):
    """A chain: the number of its rules and of the jumps to it; the hook and the policy of a base chain."""

    uses: int
    hook: Hook | None
    policy: int = ACCEPT
    """Of a base chain: `ACCEPT` or `DROP`."""


class NftTable:
    """One table, present or not, in the network namespace of `netfilter`."""

    def __init__(self, netfilter: Netfilter, family: int, name: str) -> None:
        """Ask nothing yet."""
        self.family = family
        self.name = name
        self._netfilter = netfilter

    def transaction(self) -> Transaction:
        """Begin collecting changes."""
        return Transaction(self.family, self.name)

    def commit(self, transaction: Transaction, *, doing: str, generation: int | None = None) -> None:
        """Make the changes, all or none. Raises NetlinkError.

        With `generation` it raises ERESTART, having changed nothing, if any table of the namespace was changed since
        `generation()` returned that number. `doing` names the attempt in an error.
        """
        self._netfilter.commit(transaction.messages, doing=doing, generation=generation)

    def try_commit(
        self,
        transaction: Transaction,
        doing: str,
        lost_races: Container[int] = LOST_RACES,
        generation: int | None = None,
    ) -> bool:
        """Commit; False, having changed nothing, if another process was faster. Raises NetlinkError otherwise."""
        try:
            self.commit(transaction, doing=doing, generation=generation)
        except NetlinkError as error:
            if error.errno in lost_races:
                return False
            raise
        return True

    def look_up(self, question: LookUp[T]) -> T | None:
        """Ask one question and return the answer. Raises NetlinkError."""
        self._netfilter.look_up(question)
        return question.found

    def generation_question(self) -> LookUp[int]:
        """Ask for a number that changes with every change to any table of the namespace."""
        message = encode_message(_GET_GENERATION, 0, 0, [])
        return LookUp(message, "read the generation of the firewall's rules", lambda reply: number(reply[1]))

    def uses_question(self) -> LookUp[int]:
        """Ask how many chains, sets and objects the table has."""
        return self._question(_GET_TABLE, f"look up table {self.name}", _uses)

    def chain_question(self, name: str) -> LookUp[NftChain]:
        """Ask for a chain."""
        return self._question(_GET_CHAIN, f"look up chain {name}", _chain, (3, name))

    def set_question(self, name: str) -> LookUp[str]:
        """Ask for the name of a set or map."""
        return self._question(_GET_SET, f"look up set {name}", lambda reply: string(reply[2]), (2, name))

    def counter_question(self, name: str) -> LookUp[int]:
        """Ask how many elements of maps lead to a named counter."""
        doing = f"look up counter {name}"
        return self._question(_GET_OBJECT, doing, lambda reply: number(reply[5]), (2, name), (3, _COUNTER))

    def element_question(self, name: str, key: bytes) -> LookUp[Element]:
        """Ask for the element of set `name` that has this key. O(1)."""
        wanted = element_attributes([Element(key)])
        return self._question(_GET_ELEMENT, f"look up an element of {name}", _element, (2, name), (3, wanted))

    def generation(self) -> int:
        """Return a number that changes with every change to any table of the namespace."""
        return self.look_up(self.generation_question()) or 0

    def uses(self) -> int | None:
        """Return how many chains, sets and objects the table has; None if it is missing."""
        return self.look_up(self.uses_question())

    def chain(self, name: str) -> NftChain | None:
        """Return the chain of that name, or None."""
        return self.look_up(self.chain_question(name))

    def chain_uses(self, name: str) -> int | None:
        """Return the number of the chain's rules and of the jumps to it; None if it is missing."""
        chain = self.chain(name)
        return chain.uses if chain else None

    def chains(self) -> list[str]:
        """Return the names of the table's chains; none if it is missing. O(n) in those of the whole family."""
        if self.uses() is None:
            return []
        parts = self._list(_GET_CHAIN, "list chains")
        return [string(part[3]) for part in parts if string(part[1]) == self.name]

    def sets(self) -> list[str]:
        """Return the names of the table's sets and maps; none if it is missing."""
        return [string(part[2]) for part in self._list(_GET_SET, "list sets")]

    def has_rules(self, name: str, base: NftChain) -> bool:
        """Tell whether a base chain, just looked up, has rules. Nothing leads to a base chain: its uses are its rules.

        While another process replaces all rules in one transaction, the kernel counts 0 uses for a moment. The list of
        rules is that of before or after the transaction.
        """
        return base.uses > 0 or bool(self.rules(name))

    def is_unused(self, chain: str) -> bool:
        """Tell whether a chain exists and no rule or element leads to it."""
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
        return self.look_up(self.element_question(name, key))

    def elements(self, name: str, comment: str = "") -> list[Element]:
        """Return all elements of set `name`, or those with this comment; none if it is missing. O(n)."""
        parts = self._list(_GET_ELEMENT, f"list the elements of {name}", (2, name))
        found = (element for part in parts for element in elements_in(part.get(3, b""), comment.encode()))
        return [element for element in found if comment in {"", element.comment}]

    def rules(self, chain: str) -> list[NftRule]:
        """Return the rules of `chain`; none if it is missing."""
        parts = self._list(_GET_RULE, f"list the rules of {chain}", (2, chain))
        return [
            NftRule(part[3], comment_in(part.get(7, b"")), part.get(4, b""))
            for part in parts
            if part.get(2) == chain.encode() + b"\0"
        ]

    def _question(
        self,
        kind: int,
        doing: str,
        read: Callable[[dict[int, bytes]], T],
        *attributes: tuple[int, int | str | Attributes],
    ) -> LookUp[T]:
        return LookUp(self._encoded(kind, *attributes), doing, read)

    def _list(self, kind: int, doing: str, *attributes: tuple[int, str | Attributes]) -> list[dict[int, bytes]]:
        # A hundred plugins at once interrupt each other's listings, more often than the socket itself tries again.
        for attempt in range(_DUMP_ATTEMPTS):
            try:
                replies = self._netfilter.dump(self._encoded(kind, *attributes), doing=doing)
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

    def _encoded(self, kind: int, *attributes: tuple[int, int | str | Attributes]) -> bytes:
        return encode_message(kind, 0, self.family, [(1, self.name), *attributes])


def _uses(reply: dict[int, bytes]) -> int:
    return number(reply[3])


def _chain(reply: dict[int, bytes]) -> NftChain:
    where = values(reply.get(4, b""))
    hook = Hook(string(reply[7]), number(where[1]), number(where[2])) if where else None
    return NftChain(number(reply[6]), hook, number(reply[_POLICY]) if _POLICY in reply else ACCEPT)


def _element(reply: dict[int, bytes]) -> Element:
    return next(elements_in(reply[3]))


def refuses(rule: NftRule) -> bool:
    """Tell whether the rule drops or rejects the packets that it matches."""
    return any(_refuses(name, encoded) for name, encoded in _expressions(rule))


def mentions(rule: NftRule, value: bytes) -> bool:
    """Tell whether the rule compares a part of packets with `value`, such as an address."""
    compared = (values(encoded) for name, encoded in _expressions(rule) if name == "cmp")
    return any(values(each.get(_COMPARED_DATA, b"")).get(_DATA_VALUE) == value for each in compared)


def matches(rule: NftRule, kind: str) -> list[bytes]:
    """Return the settings of the rule's matches of a kind of iptables, such as "multiport": structs of the kernel."""
    found = (values(encoded) for name, encoded in _expressions(rule) if name == "match")
    return [each.get(_MATCH_INFO, b"") for each in found if string(each.get(_MATCH_NAME, b"")) == kind]


def _refuses(name: str, encoded: bytes) -> bool:
    if name == "reject":
        return True
    attributes = values(encoded)
    if name == "target":
        return string(attributes.get(_TARGET_NAME, b"")) == "REJECT"
    verdict = values(values(attributes.get(_IMMEDIATE_DATA, b"")).get(_VERDICT, b"")) if name == "immediate" else {}
    return _VERDICT_CODE in verdict and number(verdict[_VERDICT_CODE]) == DROP


def _expressions(rule: NftRule) -> Iterator[tuple[str, bytes]]:
    for _, item in items(rule.expressions):
        expression = values(item)
        yield string(expression[_EXPRESSION_NAME]), expression.get(_EXPRESSION_DATA, b"")
