"""What kind of link a name belongs to, by one message that needs no pyroute2. See rtnetlink(7).

Runtimes ask for STATUS every few seconds, so this must start fast.
"""

import errno
import socket
import struct
from typing import Final, NamedTuple

from netlink.attributes import values
from netlink.replies import HEADER
from netlink.socket import NETLINK_ROUTE, NetlinkError, Socket

__all__ = ["LINK", "LinkKind", "get_link", "link_kind"]

# include/uapi/linux/rtnetlink.h and if_link.h
_RTM_GETLINK = 18
_RTEXT_FILTER_SKIP_STATS = 1 << 3
_IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_EXT_MASK = 3, 18, 29
_IFLA_INFO_KIND, _IFLA_INFO_DATA = 1, 2
_IFLA_BR_VLAN_FILTERING = 7

LINK: Final = struct.Struct("=BxHiII")
"""struct ifinfomsg: address family, type, index, flags, which of the flags to change."""
_ATTRIBUTE = struct.Struct("=HH")
_UINT32 = struct.Struct("=I")


class LinkKind(NamedTuple):
    """The kind of a link: "bridge", "veth", …; "" for hardware and lo."""

    kind: str
    vlan_filtering: bool
    """Of a bridge."""


def get_link(name_or_index: str | int) -> bytes:
    """Return the request for one link, by index, name or alternative name; its statistics are left out."""
    index, name = (name_or_index, b"") if isinstance(name_or_index, int) else (0, name_or_index.encode() + b"\0")
    attributes = _attribute(_IFLA_EXT_MASK, _UINT32.pack(_RTEXT_FILTER_SKIP_STATS))
    if name:
        attributes += _attribute(_IFLA_IFNAME, name)
    body = LINK.pack(socket.AF_UNSPEC, 0, index, 0, 0) + attributes
    return HEADER.pack(HEADER.size + len(body), _RTM_GETLINK, 0, 0, 0) + body


def link_kind(name: str) -> LinkKind | None:
    """Return the kind of the link of that name in the calling thread's namespace, or None. Raises NetlinkError."""
    with Socket(NETLINK_ROUTE) as rtnl:
        try:
            reply = rtnl.request(get_link(name), doing=f"look up link {name!r}")
        except NetlinkError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
    link = values(reply.encoded, HEADER.size + LINK.size)
    about = values(link.get(_IFLA_LINKINFO, b""))
    kind = about.get(_IFLA_INFO_KIND, b"").rstrip(b"\0").decode(errors="replace")
    bridge = values(about.get(_IFLA_INFO_DATA, b"")) if kind == "bridge" else {}
    return LinkKind(kind, any(bridge.get(_IFLA_BR_VLAN_FILTERING, b"")))


def _attribute(number: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), number) + value + bytes(-len(value) % 4)
