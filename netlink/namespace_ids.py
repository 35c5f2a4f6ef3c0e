"""The numbers by which one network namespace knows others (ip-netns(8), "nsid")."""

import errno
import struct
from _socket import AF_UNSPEC

from netlink.namespace import Namespace
from netlink.request import RtnlRequest, RtnlSocket, change
from netlink.wire import HEADER, Frame, attribute, message, number, values

# include/uapi/linux/rtnetlink.h and net_namespace.h
_RTM_NEWNSID, _RTM_GETNSID = 88, 90
_NETNSA_NSID, _NETNSA_FD = 1, 3
_RTGENMSG = struct.Struct("=B3x")  # family
_ID = struct.Struct("=i")
_ANY, _NONE = _ID.pack(-1), -1


def namespace_id(other: Namespace) -> int | None:
    """Return the number that the calling thread's network namespace has for `other`, or None.

    It has one as soon as a link of it has its other end there and was listed once. A question gives none. Raises
    OSError.
    """
    asking = _asking(other)
    with RtnlSocket() as rtnl:
        rtnl.send(asking)
    return None if asking.answer == _NONE else asking.answer


def give_namespace_id(other: Namespace) -> tuple[RtnlRequest[bool], RtnlRequest[int]]:
    """Return two requests: one gives `other` a number, if it has none yet; the other's answer is the number."""
    giving = _message(_RTM_NEWNSID, attribute(_NETNSA_NSID, _ANY) + number(_NETNSA_FD, other.fd))
    return change(giving, f"number the network namespace {other.path}", (errno.EEXIST,)), _asking(other)


def _asking(other: Namespace) -> RtnlRequest[int]:
    doing = f"look up the number of the network namespace {other.path}"
    return RtnlRequest(_message(_RTM_GETNSID, number(_NETNSA_FD, other.fd)), doing, _id_in)


def _message(kind: int, attributes: bytes) -> bytes:
    return message(kind, _RTGENMSG.pack(AF_UNSPEC) + attributes)


def _id_in(frames: list[Frame] | None) -> int:
    if not frames:
        return _NONE
    return int(_ID.unpack(values(frames[0].encoded, HEADER.size + _RTGENMSG.size)[_NETNSA_NSID])[0])
