"""The numbers by which one network namespace knows others (ip-netns(8), "nsid")."""

import errno
import struct
from _socket import AF_UNSPEC

from netlink.namespace import Namespace
from netlink.request import Request, change
from netlink.socket import NETLINK_ROUTE, Socket
from netlink.wire import HEADER, Frame, attribute, message, number, values

__all__ = ["give_namespace_id", "namespace_id"]

# include/uapi/linux/rtnetlink.h and net_namespace.h
_RTM_NEWNSID, _RTM_GETNSID = 88, 90
_NETNSA_NSID, _NETNSA_FD = 1, 3
_RTGENMSG = struct.Struct("=B3x")  # family
_ID = struct.Struct("=i")
_ANY = _ID.pack(-1)


def namespace_id(other: Namespace) -> int | None:
    """Return the number that the calling thread's network namespace has for `other`, or None.

    It has one as soon as a link of it has its other end there and was listed once. A question gives none. Raises
    OSError.
    """
    with Socket(NETLINK_ROUTE) as rtnl:
        found = _id(rtnl.request(_question(other), doing=f"look up the number of {other.path}"))
    return None if found < 0 else found


def give_namespace_id(other: Namespace) -> tuple[Request[bool], Request[int]]:
    """Return two requests: the first gives `other` a number, if it has none yet; the second asks for it."""
    doing = f"number the network namespace {other.path}"
    body = _RTGENMSG.pack(AF_UNSPEC) + attribute(_NETNSA_NSID, _ANY) + number(_NETNSA_FD, other.fd)
    return change(message(_RTM_NEWNSID, body), doing, (errno.EEXIST,)), Request(_question(other), doing, _id_in)


def _question(other: Namespace) -> bytes:
    return message(_RTM_GETNSID, _RTGENMSG.pack(AF_UNSPEC) + number(_NETNSA_FD, other.fd))


def _id_in(frames: list[Frame] | None) -> int:
    return _id(frames[0]) if frames else -1


def _id(reply: Frame) -> int:
    return int(_ID.unpack(values(reply.encoded, HEADER.size + _RTGENMSG.size)[_NETNSA_NSID])[0])
