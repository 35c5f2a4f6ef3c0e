"""What kind of link a name belongs to, by one message that needs no pyroute2. See rtnetlink(7).

Runtimes ask for STATUS every few seconds, so this must start fast.
"""

import errno
import socket
import struct
from typing import NamedTuple

from netlink.attributes import values
from netlink.replies import HEADER
from netlink.socket import NETLINK_ROUTE, NetlinkError, Socket

__all__ = ["LinkKind", "link_kind"]

# include/uapi/linux/rtnetlink.h and if_link.h
_RTM_GETLINK = 18
_IFLA_IFNAME, _IFLA_LINKINFO = 3, 18
_IFLA_INFO_KIND, _IFLA_INFO_DATA = 1, 2
_IFLA_BR_VLAN_FILTERING = 7

_IFINFOMSG = struct.Struct("=BxHiII")
_ATTRIBUTE = struct.Struct("=HH")


class LinkKind(NamedTuple):
    """The kind of a link: "bridge", "veth", …; "" for hardware and lo."""

    kind: str
    vlan_filtering: bool
    """Of a bridge."""


def link_kind(name: str) -> LinkKind | None:
    """Return the kind of the link of that name in the calling thread's namespace, or None. Raises NetlinkError."""
    text = name.encode() + b"\0"
    attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(text), _IFLA_IFNAME) + text + bytes(-len(text) % 4)
    body = _IFINFOMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + attribute
    message = HEADER.pack(HEADER.size + len(body), _RTM_GETLINK, 0, 0, 0) + body
    with Socket(NETLINK_ROUTE) as rtnl:
        try:
            reply = rtnl.request(message, doing=f"look up link {name!r}")
        except NetlinkError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
    link = values(reply.encoded, HEADER.size + _IFINFOMSG.size)
    about = values(link.get(_IFLA_LINKINFO, b""))
    kind = about.get(_IFLA_INFO_KIND, b"").rstrip(b"\0").decode(errors="replace")
    bridge = values(about.get(_IFLA_INFO_DATA, b"")) if kind == "bridge" else {}
    return LinkKind(kind, any(bridge.get(_IFLA_BR_VLAN_FILTERING, b"")))
