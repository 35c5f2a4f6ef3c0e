"""IP addresses of links."""

import errno
import struct
from _socket import AF_INET
from ipaddress import IPv4Interface, IPv6Interface

from lean.typing import NamedTuple
from netlink import messages
from netlink.attributes import uint32, values
from netlink.handle import Handle
from netlink.replies import HEADER, Frame
from netlink.request import DUMP, Request, change

__all__ = ["Address", "AddressVerbs", "add_address", "list_addresses"]

# include/uapi/linux/if_addr.h: struct ifaddrmsg is family, prefix length, flags, scope, ifindex
_IFADDRMSG = struct.Struct("=BBBBI")
_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS = 1, 2, 8
_IFA_F_DADFAILED = 0x08
_IFA_F_TENTATIVE = 0x40


class Address(NamedTuple):
    """An address of a link as it was when asked for."""

    interface: IPv4Interface | IPv6Interface
    ifindex: int
    """Of the link."""
    flags: int
    """IFA_F_* of include/uapi/linux/if_addr.h."""
    scope: int
    """RT_SCOPE_*: 0 universe, 253 link, 254 host."""

    @property
    def tentative(self) -> bool:
        """Whether duplicate address detection is not over."""
        return bool(self.flags & _IFA_F_TENTATIVE)

    @property
    def dadfailed(self) -> bool:
        """Whether somebody else was found to have the address."""
        return bool(self.flags & _IFA_F_DADFAILED)


class AddressVerbs(Handle):
    """IP addresses; each verb raises NetlinkError, with ENODEV where the link is not there."""

    def addresses(self, ifindex: int, family: int = 0) -> list[Address]:
        """Return the addresses of one link, of both families if `family` (AF_INET, AF_INET6) is 0."""
        return self._asked(list_addresses(ifindex, family))

    def add_address(
        self,
        ifindex: int,
        interface: IPv4Interface | IPv6Interface,
        *,
        nodad: bool = False,
        exist_ok: bool = False,
    ) -> bool:
        """Add an address; with `exist_ok`, False when it was there already.

        IPv6: `nodad` skips duplicate address detection.
        """
        return self._asked(add_address(ifindex, interface, nodad=nodad, exist_ok=exist_ok))

    def delete_address(self, ifindex: int, interface: IPv4Interface | IPv6Interface) -> bool:
        """Take an address away; False when it, or the link, was not there."""
        request = messages.delete_address(ifindex, interface)
        missing = (errno.EADDRNOTAVAIL, errno.ENODEV)
        return self._tried(request, *missing, doing=f"delete address {interface} of link {ifindex}")


def list_addresses(ifindex: int, family: int = 0) -> Request[list[Address]]:
    """Ask for the addresses of one link, of both families if `family` is 0; the last of the requests in a send."""
    doing = f"list the addresses of link {ifindex}"
    return Request(messages.get_addresses(ifindex, family), doing, _addresses, asks=DUMP)


def add_address(
    ifindex: int,
    interface: IPv4Interface | IPv6Interface,
    *,
    nodad: bool = False,
    noprefixroute: bool = False,
    exist_ok: bool = False,
) -> Request[bool]:
    """Ask for an address, as `AddressVerbs.add_address` does; with `noprefixroute` without a route to its network."""
    harmless = (errno.EEXIST,) if exist_ok else ()
    request = messages.new_address(ifindex, interface, nodad=nodad, noprefixroute=noprefixroute)
    return change(request, f"add address {interface} to link {ifindex}", harmless)


def _addresses(frames: list[Frame] | None) -> list[Address]:
    return [_address(frame) for frame in frames or ()]


def _address(frame: Frame) -> Address:
    family, length, flags, scope, ifindex = _IFADDRMSG.unpack_from(frame.encoded, HEADER.size)
    attribute = values(frame.encoded, HEADER.size + _IFADDRMSG.size)
    # With a peer, IFA_ADDRESS is the peer's; without one IPv6 has no IFA_LOCAL.
    packed = attribute.get(_IFA_LOCAL) or attribute[_IFA_ADDRESS]
    return Address(
        interface=(IPv4Interface if family == AF_INET else IPv6Interface)((packed, length)),
        ifindex=ifindex,
        flags=uint32(attribute[_IFA_FLAGS]) if _IFA_FLAGS in attribute else flags,
        scope=scope,
    )
