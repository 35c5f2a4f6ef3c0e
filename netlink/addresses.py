"""IP addresses of links, and the loopback interface of a network namespace."""

import errno
import struct
from _socket import AF_INET, AF_INET6
from ipaddress import IPv4Interface, IPv6Interface

from fast_stdlib.typing import NamedTuple
from netlink.link import find_link
from netlink.link_wire import change_link
from netlink.request import DUMP, RtnlRequest, RtnlSocket, change
from netlink.wire import HEADER, NLM_F_CREATE, NLM_F_EXCL, Frame, attribute, message, number, uint32, values

Interface = IPv4Interface | IPv6Interface

# include/uapi/linux/rtnetlink.h and if_addr.h: struct ifaddrmsg is family, prefix length, flags, scope, ifindex
_RTM_NEWADDR, _RTM_DELADDR, _RTM_GETADDR = 20, 21, 22
_IFADDRMSG = struct.Struct("=BBBBI")
_IFA_ADDRESS, _IFA_LOCAL, _IFA_BROADCAST, _IFA_FLAGS = 1, 2, 4, 8
_IFA_F_NODAD, _IFA_F_NOPREFIXROUTE = 0x02, 0x200
_IFA_F_DADFAILED = 0x08
_IFA_F_TENTATIVE = 0x40
_IFA_F_PERMANENT = 0x80
_IPV4 = 4
# A network of two addresses or one has none to spare for broadcasts (RFC 3021).
_LONGEST_WITH_BROADCAST = 30

ALL_LINKS = 0
"""As an index it selects all links in one dump. A dump for one link fails if the link goes meanwhile."""

# The kernel gives `lo` this ifindex in every namespace (LOOPBACK_IFINDEX in include/net/flow.h), under any name.
_LO_IFINDEX = 1


class Address(NamedTuple):
    """An address of a link as it was when the kernel was asked."""

    interface: Interface
    ifindex: int
    """Of the link."""
    flags: int
    """IFA_F_* of include/uapi/linux/if_addr.h."""
    scope: int
    """RT_SCOPE_*: 0 universe, 253 link, 254 host."""
    broadcast: bool
    """Whether it has an address for broadcasts (IPv4)."""

    @property
    def nodad(self) -> bool:
        """Whether duplicate address detection is skipped."""
        return bool(self.flags & _IFA_F_NODAD)

    @property
    def permanent(self) -> bool:
        """Whether it has no end: neither a router's advertisement nor a DHCP client has given it."""
        return bool(self.flags & _IFA_F_PERMANENT)

    @property
    def tentative(self) -> bool:
        """Whether duplicate address detection is not over."""
        return bool(self.flags & _IFA_F_TENTATIVE)

    @property
    def dadfailed(self) -> bool:
        """Whether duplicate address detection found the address in use."""
        return bool(self.flags & _IFA_F_DADFAILED)


class AddressVerbs(RtnlSocket):
    """IP addresses; each verb raises NetlinkError, ENODEV if the link is missing."""

    def addresses(self, ifindex: int, family: int = 0) -> list[Address]:
        """Return the addresses of one link, of both families if `family` (AF_INET, AF_INET6) is 0."""
        return self._asked(list_addresses(ifindex, family))

    def add_address(self, ifindex: int, interface: Interface, *, nodad: bool = False, exist_ok: bool = False) -> bool:
        """Add an address; with `exist_ok`, False if the link has it already.

        IPv6: `nodad` skips duplicate address detection.
        """
        return self._asked(add_address(ifindex, interface, nodad=nodad, exist_ok=exist_ok))

    def delete_address(self, ifindex: int, interface: Interface) -> bool:
        """Delete an address; False if it, or the link, is missing."""
        missing = (errno.EADDRNOTAVAIL, errno.ENODEV)
        return self._tried(
            delete_address(ifindex, interface), *missing, doing=f"delete address {interface} of link {ifindex}"
        )


def list_addresses(ifindex: int, family: int = 0) -> RtnlRequest[list[Address]]:
    """Ask for the addresses of one link, of both families if `family` is 0; the last of the requests in a send."""
    doing = f"list the addresses of link {ifindex}"
    return RtnlRequest(get_addresses(ifindex, family), doing, _addresses, asks=DUMP)


def add_address(
    ifindex: int, interface: Interface, *, nodad: bool = False, noprefixroute: bool = False, exist_ok: bool = False
) -> RtnlRequest[bool]:
    """Ask for an address, as `AddressVerbs.add_address` does; with `noprefixroute` without a route to its network."""
    harmless = (errno.EEXIST,) if exist_ok else ()
    request = new_address(ifindex, interface, nodad=nodad, noprefixroute=noprefixroute)
    return change(request, f"add address {interface} to link {ifindex}", harmless)


def readd_address(address: Address) -> RtnlRequest[bool]:
    """Ask for an address that its link had before, without duplicate address detection; False if the link has it."""
    noprefixroute = bool(address.flags & _IFA_F_NOPREFIXROUTE)
    return add_address(address.ifindex, address.interface, nodad=True, noprefixroute=noprefixroute, exist_ok=True)


def get_addresses(ifindex: int, family: int = 0) -> bytes:
    """Ask for the addresses of one link, of both families if `family` is 0."""
    return message(_RTM_GETADDR, _IFADDRMSG.pack(family, 0, 0, 0, ifindex))


def new_address(
    ifindex: int, interface: Interface, *, nodad: bool = False, noprefixroute: bool = False, broadcast: bool = True
) -> bytes:
    """Add an address, with the network's broadcast address if it is IPv4 and `broadcast` is true.

    IPv6: `nodad` skips duplicate address detection. `noprefixroute`: the kernel adds no route to the network.
    """
    flags = (_IFA_F_NODAD if nodad else 0) | (_IFA_F_NOPREFIXROUTE if noprefixroute else 0)
    attributes = number(_IFA_FLAGS, flags)
    if broadcast and interface.version == _IPV4 and interface.network.prefixlen <= _LONGEST_WITH_BROADCAST:
        attributes += attribute(_IFA_BROADCAST, interface.network.broadcast_address.packed)
    return message(_RTM_NEWADDR, _own(ifindex, interface) + attributes, NLM_F_CREATE | NLM_F_EXCL)


def delete_address(ifindex: int, interface: Interface) -> bytes:
    """Delete an address."""
    return message(_RTM_DELADDR, _own(ifindex, interface))


def _own(ifindex: int, interface: Interface) -> bytes:
    family = AF_INET if interface.version == _IPV4 else AF_INET6
    packed = interface.packed
    body = _IFADDRMSG.pack(family, interface.network.prefixlen, 0, 0, ifindex)
    return body + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)


def _addresses(frames: list[Frame] | None) -> list[Address]:
    return [address_in(frame) for frame in frames or ()]


def address_in(frame: Frame) -> Address:
    """Return the address in an RTM_NEWADDR or RTM_DELADDR message."""
    family, length, flags, scope, ifindex = _IFADDRMSG.unpack_from(frame.encoded, HEADER.size)
    attribute = values(frame.encoded, HEADER.size + _IFADDRMSG.size)
    # With a peer, IFA_ADDRESS is the peer's; without one IPv6 has no IFA_LOCAL.
    packed = attribute.get(_IFA_LOCAL) or attribute[_IFA_ADDRESS]
    return Address(
        interface=(IPv4Interface if family == AF_INET else IPv6Interface)((packed, length)),
        ifindex=ifindex,
        flags=uint32(attribute[_IFA_FLAGS]) if _IFA_FLAGS in attribute else flags,
        scope=scope,
        broadcast=_IFA_BROADCAST in attribute,
    )


class Loopback(RtnlSocket):
    """The `lo` of one namespace; a context manager around its socket. Not to be shared between threads.

    A container runtime has it brought up for every pod, so it needs neither pyroute2 nor the verbs of `Rtnl`.
    """

    def set_up(self) -> None:
        """Set it up; the kernel gives it 127.0.0.1/8 (if it has no IPv4 address) and ::1. Raises NetlinkError."""
        self._tried(change_link(_LO_IFINDEX, up=True), doing="bring up lo")

    def set_down(self) -> None:
        """Set it down; its IPv4 addresses stay, ::1 goes. Raises NetlinkError."""
        self._tried(change_link(_LO_IFINDEX, up=False), doing="bring down lo")

    def is_up(self) -> bool:
        """Tell whether it is administratively up. Raises NetlinkError."""
        link = self._asked(find_link(_LO_IFINDEX))
        return link is not None and link.up

    def addresses(self) -> list[IPv4Interface | IPv6Interface]:
        """Return its addresses, IPv4 before IPv6, each family in the kernel's order. Raises NetlinkError."""
        found = [address.interface for address in self._asked(list_addresses(_LO_IFINDEX))]
        return sorted(found, key=lambda interface: interface.version)
