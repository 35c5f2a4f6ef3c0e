"""Spans of netlink messages, in the kernel's names. Loaded only while somebody records (lean.recorder)."""

import sys
from collections.abc import Iterable

import lean
from lean.typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["message_span"]

_ROUTE: Final = {
    16: "LINK", 20: "ADDR", 24: "ROUTE", 28: "NEIGH", 32: "RULE", 36: "QDISC", 40: "TCLASS", 44: "TFILTER",
    64: "NEIGHTBL", 80: "NETCONF", 84: "MDB", 88: "NSID", 92: "STATS",
}  # fmt: skip
"""The objects of messages by the first of their four types (include/uapi/linux/rtnetlink.h)."""
_ACTIONS: Final = ("NEW", "DEL", "GET", "SET")
_NFT: Final = (
    "NEWTABLE", "GETTABLE", "DELTABLE", "NEWCHAIN", "GETCHAIN", "DELCHAIN", "NEWRULE", "GETRULE", "DELRULE", "NEWSET",
    "GETSET", "DELSET", "NEWSETELEM", "GETSETELEM", "DELSETELEM", "NEWGEN", "GETGEN", "TRACE", "NEWOBJ", "GETOBJ",
    "DELOBJ", "GETOBJ_RESET", "NEWFLOWTABLE", "GETFLOWTABLE", "DELFLOWTABLE", "GETRULE_RESET", "DESTROYTABLE",
    "DESTROYCHAIN", "DESTROYRULE", "DESTROYSET", "DESTROYSETELEM", "DESTROYOBJ", "DESTROYFLOWTABLE",
    "GETSETELEM_RESET",
)  # fmt: skip
"""The messages of nftables by type (include/uapi/linux/netfilter/nf_tables.h)."""
_NFTABLES: Final = 10
"""The subsystem of nftables in the upper byte of a type (include/uapi/linux/netfilter/nfnetlink.h)."""


def message_span(messages: Iterable[bytes], attempts: Iterable[str], name: str = "") -> "AbstractContextManager[None]":
    """Return the span of one system call that sends `messages`; `attempts` say what they are for.

    Its name is `name`, or else that of the first message.
    """
    names = [_name(int.from_bytes(message[4:6], sys.byteorder)) for message in messages]
    made: AbstractContextManager[None] = lean.span(
        name or f"netlink {names[0]}", messages=names, doing=list(dict.fromkeys(filter(None, attempts)))
    )
    return made


def _name(type: int) -> str:
    if type >> 8 == _NFTABLES and type & 0xFF < len(_NFT):
        return f"NFT_MSG_{_NFT[type & 0xFF]}"
    if type & ~3 in _ROUTE:
        return f"RTM_{_ACTIONS[type & 3]}{_ROUTE[type & ~3]}"
    return f"type {type}"
