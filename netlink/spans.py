"""Spans of netlink messages, in the kernel's names. Loaded only while somebody records (fast_stdlib.recorder)."""

import sys

import fast_stdlib
from fast_stdlib.typing import TYPE_CHECKING, Final, Iterable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

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
_NAMES: Final = {
    **{first + at: f"RTM_{action}{name}" for first, name in _ROUTE.items() for at, action in enumerate(_ACTIONS)},
    **{_NFTABLES << 8 | at: f"NFT_MSG_{name}" for at, name in enumerate(_NFT)},
}


def message_span(
    messages: Iterable[bytes], attempts: Iterable[str], name: str = ""
) -> "AbstractContextManager[object]":
    """Return the span of one system call that sends `messages`; `attempts` say what they are for.

    Its name is `name`, or else that of the first message.
    """
    order = sys.byteorder
    names = [_NAMES.get(type := int.from_bytes(each[4:6], order)) or f"type {type}" for each in messages]
    doing = list(dict.fromkeys(filter(None, attempts)))
    return fast_stdlib.span(name or f"netlink {names[0]}", messages=names, doing=doing)
