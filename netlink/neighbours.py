"""Neighbours (ip-neighbour(8)), and the forwarding database of a link (bridge(8), "fdb").

A neighbour is an IP address with the hardware address that its packets are sent to. An entry of a VXLAN link's database
is a hardware address with the IP address of its tunnel's end. The kernel has one message for both:
include/uapi/linux/neighbour.h; names are its own.
"""

import errno
from _socket import AF_BRIDGE, AF_INET, AF_INET6

from fast_stdlib.typing import Final, NamedTuple
from netlink.link import NDA_LLADDR, NDMSG, RTM_GETNEIGH
from netlink.request import RtnlRequest, RtnlSocket, change
from netlink.routes import Address, address_of
from netlink.wire import (
    HEADER,
    NLM_F_APPEND,
    NLM_F_CREATE,
    NLM_F_REPLACE,
    attribute,
    hardware_address,
    message,
    number,
    values,
)

NUD_PERMANENT: Final = 0x80
NTF_SELF: Final = 0x02
_RTM_NEWNEIGH, _RTM_DELNEIGH = 28, 29
_NDA_DST, _NDA_IFINDEX, _NDA_PROTOCOL = 1, 8, 12
_IPV4 = 4
_REST = "00:00:00:00:00:00"
"""In a forwarding database: all hardware addresses without an entry."""


class Neighbour(NamedTuple):
    """An entry as it was when the kernel was asked."""

    ifindex: int
    dst: Address | None
    """The neighbour's address; of a forwarding database the tunnel's end, None if the entry has no such address."""
    lladdr: str
    """The hardware address, "" if the kernel has none yet."""
    state: int
    """NUD_*: 0x80 permanent, 0x02 reachable, 0x04 stale, …"""
    flags: int
    """NTF_*: 0x02 self, 0x04 master, 0x80 router, …"""
    protocol: int
    """RTPROT_*, the entry's maker; 0 if the maker named none, and in a forwarding database."""


def list_neighbours(rtnl: RtnlSocket, family: int, *, ifindex: int = 0) -> list[Neighbour]:
    """Return the neighbours of a family (0: of both), or with AF_BRIDGE the forwarding databases, in no certain order.

    With `ifindex`, only those of that link. Raises NetlinkError.
    """
    of_link = number(_NDA_IFINDEX, ifindex) if ifindex else b""
    request = message(RTM_GETNEIGH, NDMSG.pack(family, 0, 0, 0, 0) + of_link)
    return [neighbour_in(frame.encoded) for frame in rtnl.dump(request, doing="list neighbours")]


def set_neighbour(ifindex: int, dst: Address, lladdr: str, *, protocol: int = 0) -> RtnlRequest[bool]:
    """Ask for a permanent neighbour, in place of the entry that `dst` may have on the link.

    `protocol` is a number from 1 to 255 by which the maker finds its entries again; 0 names none.
    """
    maker = attribute(_NDA_PROTOCOL, bytes([protocol])) if protocol else b""
    encoded = message(_RTM_NEWNEIGH, _entry(ifindex, dst, lladdr) + maker, NLM_F_CREATE | NLM_F_REPLACE)
    return change(encoded, f"set neighbour {dst} of link {ifindex} to {lladdr}")


def delete_neighbour(ifindex: int, dst: Address) -> RtnlRequest[bool]:
    """Ask for the deletion of a neighbour of a link; False if it is missing."""
    encoded = message(_RTM_DELNEIGH, _entry(ifindex, dst))
    return change(encoded, f"delete neighbour {dst} of link {ifindex}", (errno.ENOENT,))


def set_forwarding(ifindex: int, lladdr: str, dst: Address) -> RtnlRequest[bool]:
    """Ask for a permanent entry: a VXLAN link sends frames for `lladdr` to the tunnel's end `dst`.

    A hardware address has one end, which is replaced. A group, and the address of zeros, which stands for all addresses
    without an entry, get one more end, as by `bridge fdb append`.
    """
    is_group = lladdr == _REST or int(lladdr[:2], 16) & 1
    flags = NLM_F_CREATE | (NLM_F_APPEND if is_group else NLM_F_REPLACE)
    encoded = message(_RTM_NEWNEIGH, _entry(ifindex, dst, lladdr, is_forwarding=True), flags)
    return change(encoded, f"forward {lladdr} of link {ifindex} to {dst}")


def delete_forwarding(ifindex: int, lladdr: str, dst: Address) -> RtnlRequest[bool]:
    """Ask for the deletion of an entry of `set_forwarding`; False if it is missing."""
    encoded = message(_RTM_DELNEIGH, _entry(ifindex, dst, lladdr, is_forwarding=True))
    return change(encoded, f"stop forwarding {lladdr} of link {ifindex} to {dst}", (errno.ENOENT,))


def neighbour_in(encoded: bytes) -> Neighbour:
    """Return the entry in an RTM_NEWNEIGH message."""
    _, ifindex, state, flags, _ = NDMSG.unpack_from(encoded, HEADER.size)
    found = values(encoded, HEADER.size + NDMSG.size)
    return Neighbour(
        ifindex=ifindex,
        dst=address_of(found.get(_NDA_DST)),
        lladdr=found.get(NDA_LLADDR, b"").hex(":"),
        state=state,
        flags=flags,
        protocol=int.from_bytes(found.get(_NDA_PROTOCOL, b"")),
    )


def _entry(ifindex: int, dst: Address, lladdr: str = "", *, is_forwarding: bool = False) -> bytes:
    family = AF_BRIDGE if is_forwarding else AF_INET if dst.version == _IPV4 else AF_INET6
    fixed = NDMSG.pack(family, ifindex, NUD_PERMANENT, NTF_SELF if is_forwarding else 0, 0)
    return fixed + attribute(_NDA_DST, dst.packed) + (hardware_address(NDA_LLADDR, lladdr) if lladdr else b"")
