"""Requests about addresses as bytes: those of every ADD.

Wire format: include/uapi/linux/rtnetlink.h and if_addr.h; names are theirs. A test compares them with pyroute2's own.
"""

import struct
from _socket import AF_INET, AF_INET6
from ipaddress import IPv4Interface, IPv6Interface

from netlink.attributes import attribute, number
from netlink.replies import HEADER
from netlink.socket import NLM_F_CREATE, NLM_F_EXCL

__all__ = ["delete_address", "get_addresses", "new_address"]

Interface = IPv4Interface | IPv6Interface

_RTM_NEWADDR, _RTM_DELADDR, _RTM_GETADDR = 20, 21, 22
_IFA_ADDRESS, _IFA_LOCAL, _IFA_BROADCAST, _IFA_FLAGS = 1, 2, 4, 8
_IFA_F_NODAD, _IFA_F_NOPREFIXROUTE = 0x02, 0x200
_IFADDRMSG = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, ifindex
_IPV4 = 4
# A network of two addresses or one has none to spare for broadcasts (RFC 3021).
_LONGEST_WITH_BROADCAST = 30


def get_addresses(ifindex: int, family: int = 0) -> bytes:
    """Ask for the addresses of one link, of both families if `family` is 0."""
    return _message(_RTM_GETADDR, _IFADDRMSG.pack(family, 0, 0, 0, ifindex))


def new_address(ifindex: int, interface: Interface, *, nodad: bool = False, noprefixroute: bool = False) -> bytes:
    """Add an address, with the network's broadcast address if it is IPv4.

    IPv6: `nodad` skips duplicate address detection. `noprefixroute`: the kernel adds no route to the network.
    """
    flags = (_IFA_F_NODAD if nodad else 0) | (_IFA_F_NOPREFIXROUTE if noprefixroute else 0)
    attributes = number(_IFA_FLAGS, flags)
    if interface.version == _IPV4 and interface.network.prefixlen <= _LONGEST_WITH_BROADCAST:
        attributes += attribute(_IFA_BROADCAST, interface.network.broadcast_address.packed)
    return _message(_RTM_NEWADDR, _address(ifindex, interface) + attributes, NLM_F_CREATE | NLM_F_EXCL)


def delete_address(ifindex: int, interface: Interface) -> bytes:
    """Take an address away."""
    return _message(_RTM_DELADDR, _address(ifindex, interface))


def _address(ifindex: int, interface: Interface) -> bytes:
    family = AF_INET if interface.version == _IPV4 else AF_INET6
    packed = interface.packed
    body = _IFADDRMSG.pack(family, interface.network.prefixlen, 0, 0, ifindex)
    return body + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)


def _message(kind: int, body: bytes, flags: int = 0) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, flags, 0, 0) + body
