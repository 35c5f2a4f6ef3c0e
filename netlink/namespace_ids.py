"""The numbers by which one network namespace knows others (ip-netns(8), "nsid")."""

import struct
from _socket import AF_UNSPEC

from netlink.namespace import Namespace
from netlink.socket import NETLINK_ROUTE, Socket
from netlink.wire import HEADER, message, number, values

__all__ = ["namespace_id"]

# include/uapi/linux/rtnetlink.h and net_namespace.h
_RTM_GETNSID = 90
_NETNSA_NSID, _NETNSA_FD = 1, 3
_RTGENMSG = struct.Struct("=B3x")  # family
_ID = struct.Struct("=i")


def namespace_id(other: Namespace) -> int | None:
    """Return the number that the calling thread's network namespace has for `other`, or None.

    It has one as soon as a link of it has its other end there and was listed once. A question gives none. Raises
    OSError.
    """
    question = message(_RTM_GETNSID, _RTGENMSG.pack(AF_UNSPEC) + number(_NETNSA_FD, other.fd))
    with Socket(NETLINK_ROUTE) as rtnl:
        reply = rtnl.request(question, doing=f"look up the number of {other.path}")
    (found,) = _ID.unpack(values(reply.encoded, HEADER.size + _RTGENMSG.size)[_NETNSA_NSID])
    return None if found < 0 else int(found)
