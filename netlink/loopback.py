"""The loopback interface of a network namespace, by a few messages that need no pyroute2.

A container runtime has `lo` brought up for every pod, so this must start fast. See rtnetlink(7).
"""

import _socket
import struct
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from lean.typing import Final
from netlink.attributes import values
from netlink.closing import Closing
from netlink.namespace import Namespace
from netlink.replies import HEADER
from netlink.socket import NETLINK_ROUTE, Frame, Socket

__all__ = ["LOOPBACK", "Loopback"]

LOOPBACK: Final = "lo"

# The kernel gives `lo` this ifindex in every namespace (LOOPBACK_IFINDEX in include/net/flow.h), under any name.
_INDEX = 1

# include/uapi/linux/rtnetlink.h, if_addr.h and if.h
_RTM_NEWLINK = 16
_RTM_GETLINK = 18
_RTM_GETADDR = 22
_IFA_ADDRESS = 1
_IFA_LOCAL = 2
_IFF_UP = 0x1

_IFINFOMSG = struct.Struct("=BxHiII")  # family, type, ifindex, flags, which of the flags to change
_IFADDRMSG = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, ifindex


class Loopback(Closing):
    """The `lo` of one namespace; a context manager around its socket. Not to be shared between threads."""

    def __init__(self, namespace: Namespace | None = None) -> None:
        """Open a socket in `namespace`, or else the thread's own. Raises OSError."""
        self._socket = Socket(NETLINK_ROUTE, namespace)

    def close(self) -> None:
        """Close; a second call does nothing."""
        self._socket.close()

    def set_up(self) -> None:
        """Bring it up; the kernel gives it 127.0.0.1/8 (if it has no IPv4 address) and ::1. Raises NetlinkError."""
        self._set_flags(_IFF_UP, doing="bring up lo")

    def set_down(self) -> None:
        """Bring it down; its IPv4 addresses stay, ::1 goes. Raises NetlinkError."""
        self._set_flags(0, doing="bring down lo")

    def is_up(self) -> bool:
        """Tell whether it is administratively up. Raises NetlinkError."""
        message = _message(_RTM_GETLINK, _IFINFOMSG.pack(_socket.AF_UNSPEC, 0, _INDEX, 0, 0))
        reply = self._socket.request(message, doing="look up lo")
        flags: int = _IFINFOMSG.unpack_from(reply.encoded, HEADER.size)[3]
        return bool(flags & _IFF_UP)

    def addresses(self) -> list[IPv4Interface | IPv6Interface]:
        """Return its addresses, IPv4 before IPv6, each family in the kernel's order. Raises NetlinkError."""
        # With strict checking, which the socket asks for, the kernel returns those of this ifindex alone.
        message = _message(_RTM_GETADDR, _IFADDRMSG.pack(_socket.AF_UNSPEC, 0, 0, 0, _INDEX))
        frames = self._socket.dump(message, doing="list the addresses of lo")
        return sorted(map(_address, frames), key=lambda address: address.version)

    def _set_flags(self, flags: int, *, doing: str) -> None:
        message = _message(_RTM_NEWLINK, _IFINFOMSG.pack(_socket.AF_UNSPEC, 0, _INDEX, flags, _IFF_UP))
        self._socket.execute([message], doing=doing)


def _message(kind: int, body: bytes) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, 0, 0, 0) + body


def _address(frame: Frame) -> IPv4Interface | IPv6Interface:
    family, prefix_length, _, _, _ = _IFADDRMSG.unpack_from(frame.encoded, HEADER.size)
    attributes = values(frame.encoded, HEADER.size + _IFADDRMSG.size)
    # IFA_ADDRESS is the peer's where there is one; IFA_LOCAL is ours, and IPv6 sends it only in that case.
    packed = attributes.get(_IFA_LOCAL, attributes[_IFA_ADDRESS])
    return ip_interface(f"{_socket.inet_ntop(family, packed)}/{prefix_length}")
