"""The numbers by which one network namespace knows others (ip-netns(8), "nsid"). No pyroute2."""

import os
import socket
import struct

from netlink.attributes import number, values
from netlink.namespace import Namespace
from netlink.replies import HEADER

__all__ = ["namespace_id"]

# include/uapi/linux/rtnetlink.h and net_namespace.h
_RTM_NEWNSID = 88
_RTM_GETNSID = 90
_NETNSA_NSID = 1
_NETNSA_FD = 3
_NLM_F_REQUEST = 1

_FAMILY = struct.Struct("=B3x")
_ID = struct.Struct("=i")


def namespace_id(other: Namespace) -> int | None:
    """Return the number that the calling thread's network namespace has for `other`, None where it has none.

    A namespace has a number for another as soon as a link of it has its other end there and was listed once. Asking
    gives none. Raises OSError.
    """
    body = _FAMILY.pack(socket.AF_UNSPEC) + number(_NETNSA_FD, other.fd)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as rtnl:
        rtnl.send(HEADER.pack(HEADER.size + len(body), _RTM_GETNSID, _NLM_F_REQUEST, 1, 0) + body)
        reply = rtnl.recv(4096)
    kind = HEADER.unpack_from(reply)[1]
    if kind != _RTM_NEWNSID:
        refusal = -_ID.unpack_from(reply, HEADER.size)[0]
        raise OSError(refusal, os.strerror(refusal), other.path)
    (found,) = _ID.unpack(values(reply, HEADER.size + _FAMILY.size)[_NETNSA_NSID])
    return None if found < 0 else int(found)
