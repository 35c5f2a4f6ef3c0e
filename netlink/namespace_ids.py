"""The numbers by which one network namespace knows others (ip-netns(8), "nsid"). No pyroute2."""

import errno
import os
import socket
import struct

from netlink.attributes import attribute, number, values
from netlink.namespace import Namespace
from netlink.replies import HEADER, Frame
from netlink.request import Request, change

__all__ = ["give_namespace_id", "namespace_id"]

# include/uapi/linux/rtnetlink.h and net_namespace.h
_RTM_NEWNSID = 88
_RTM_GETNSID = 90
_NETNSA_NSID = 1
_NETNSA_FD = 3
_NLM_F_REQUEST = 1

_FAMILY = struct.Struct("=B3x")
_ID = struct.Struct("=i")
_ANY = _ID.pack(-1)


def namespace_id(other: Namespace) -> int | None:
    """Return the number that the calling thread's network namespace has for `other`, None where it has none.

    A namespace has a number for another as soon as a link of it has its other end there and was listed once. Asking
    gives none. Raises OSError.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as rtnl:
        rtnl.send(_message(_RTM_GETNSID, number(_NETNSA_FD, other.fd), _NLM_F_REQUEST))
        reply = rtnl.recv(4096)
    kind = HEADER.unpack_from(reply)[1]
    if kind != _RTM_NEWNSID:
        refusal = -_ID.unpack_from(reply, HEADER.size)[0]
        raise OSError(refusal, os.strerror(refusal), other.path)
    found = _id(reply)
    return None if found < 0 else found


def give_namespace_id(other: Namespace) -> tuple[Request[bool], Request[int]]:
    """Return two requests: one gives `other` a number, if it has none yet, the other's answer is the number."""
    doing = f"number the network namespace {other.path}"
    fd = number(_NETNSA_FD, other.fd)
    giving = _message(_RTM_NEWNSID, attribute(_NETNSA_NSID, _ANY) + fd)
    return change(giving, doing, (errno.EEXIST,)), Request(_message(_RTM_GETNSID, fd), doing, _id_in)


def _message(kind: int, attributes: bytes, flags: int = 0) -> bytes:
    size = HEADER.size + _FAMILY.size + len(attributes)
    return HEADER.pack(size, kind, flags, 1, 0) + _FAMILY.pack(socket.AF_UNSPEC) + attributes


def _id_in(frames: list[Frame] | None) -> int:
    return _id(frames[0].encoded) if frames else -1


def _id(reply: bytes) -> int:
    return int(_ID.unpack(values(reply, HEADER.size + _FAMILY.size)[_NETNSA_NSID])[0])
