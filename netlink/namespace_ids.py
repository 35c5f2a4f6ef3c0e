"""The numbers by which one network namespace knows others (ip-netns(8), "nsid"). No pyroute2."""

import errno
import struct
from _socket import AF_UNSPEC

from netlink.attributes import attribute, number, values
from netlink.namespace import Namespace
from netlink.replies import HEADER, Frame
from netlink.request import Request, change
from netlink.socket import NETLINK_ROUTE, Socket

__all__ = ["give_namespace_id", "namespace_id"]

# include/uapi/linux/rtnetlink.h and net_namespace.h
_RTM_NEWNSID = 88
_RTM_GETNSID = 90
_NETNSA_NSID = 1
_NETNSA_FD = 3

_FAMILY = struct.Struct("=B3x")
_ID = struct.Struct("=i")
_ANY = _ID.pack(-1)


def namespace_id(other: Namespace) -> int | None:
    """Return the number that the calling thread's network namespace has for `other`, None where it has none.

    A namespace has a number for another as soon as a link of it has its other end there and was listed once. Asking
    gives none. Raises OSError.
    """
    doing = f"look up the number of the network namespace {other.path}"
    with Socket(NETLINK_ROUTE) as rtnl:
        found = _id(rtnl.request(_message(_RTM_GETNSID, number(_NETNSA_FD, other.fd)), doing=doing).encoded)
    return None if found < 0 else found


def give_namespace_id(other: Namespace) -> tuple[Request[bool], Request[int]]:
    """Return two requests: one gives `other` a number, if it has none yet, the other's answer is the number."""
    doing = f"number the network namespace {other.path}"
    fd = number(_NETNSA_FD, other.fd)
    giving = _message(_RTM_NEWNSID, attribute(_NETNSA_NSID, _ANY) + fd)
    return change(giving, doing, (errno.EEXIST,)), Request(_message(_RTM_GETNSID, fd), doing, _id_in)


def _message(kind: int, attributes: bytes) -> bytes:
    size = HEADER.size + _FAMILY.size + len(attributes)
    return HEADER.pack(size, kind, 0, 0, 0) + _FAMILY.pack(AF_UNSPEC) + attributes


def _id_in(frames: list[Frame] | None) -> int:
    return _id(frames[0].encoded) if frames else -1


def _id(reply: bytes) -> int:
    return int(_ID.unpack(values(reply, HEADER.size + _FAMILY.size)[_NETNSA_NSID])[0])
