"""A link as the kernel describes it, and the requests that ask for that."""

import errno
import struct
from _socket import AF_INET6

from lean.typing import NamedTuple
from netlink.attributes import items, uint32, value, values
from netlink.kinds import MACVLAN_MODES
from netlink.link_wire import IFF_PROMISC, IFF_UP, LINK_BODY, get_fdb_entry, get_link
from netlink.replies import HEADER, Frame
from netlink.request import Request

__all__ = ["Link", "find_fdb_owner", "find_link", "link_in"]

# include/uapi/linux/rtnetlink.h: struct ifinfomsg, with the ifindex and the flags 4 bytes into it
_INDEX_AND_FLAGS = struct.Struct("=iI")
# include/uapi/linux/if_link.h
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_LINK, _IFLA_MASTER = 1, 3, 4, 5, 10
_IFLA_OPERSTATE, _IFLA_LINKINFO, _IFLA_IFALIAS, _IFLA_AF_SPEC, _IFLA_PROP_LIST, _IFLA_ALT_IFNAME = (
    16,
    18,
    20,
    26,
    52,
    53,
)
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _IFLA_INFO_SLAVE_KIND, _IFLA_INFO_SLAVE_DATA = 1, 2, 4, 5
_IFLA_BR_VLAN_FILTERING = 7
_IFLA_MACVLAN_MODE = 1
_IFLA_BRPORT_MODE, _IFLA_BRPORT_ISOLATED = 4, 33
_IFLA_INET6_CONF = 2
_DEVCONF_ACCEPT_RA = 3  # include/uapi/linux/ipv6.h
# include/uapi/linux/neighbour.h: the index in struct ndmsg
_NDM_IFINDEX = struct.Struct("=4xi")
_NO_FDB_ENTRY = (errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL)
# include/uapi/linux/if.h, IF_OPER_*
_OPER_STATES = ("UNKNOWN", "NOTPRESENT", "DOWN", "LOWERLAYERDOWN", "TESTING", "DORMANT", "UP")


class Link(NamedTuple):
    """A link as it was when asked for."""

    ifindex: int
    name: str
    mac: str
    mtu: int
    """Bytes."""
    kind: str
    """"bridge", "veth", …; "" for hardware and lo."""
    up: bool
    """Whether it was set up, whatever its carrier."""
    oper_state: str
    """"UP", "DOWN", "LOWERLAYERDOWN", "UNKNOWN", … (RFC 2863)."""
    promiscuous: bool
    """Whether it was set so; a bridge's ports are promiscuous without it."""
    master: int
    """Index of the bridge that it is a port of, or 0."""
    peer_ifindex: int
    """Index of a veth's other end in the namespace that one is in, or 0."""
    alias: str
    altnames: tuple[str, ...]
    accepts_ra: bool
    """Whether it takes routes from routers' advertisements (the kernel parameter `accept_ra`)."""
    vlan_filtering: bool
    """Of a bridge."""
    hairpin: bool
    """Of a bridge's port, as is the next."""
    isolated: bool
    macvlan_mode: str
    """One of netlink.kinds.MACVLAN_MODES; "" for another kind."""


def find_link(name_or_ifindex: str | int) -> Request[Link | None]:
    """Ask for the link of that name, alternative name or ifindex; None if there is none."""
    doing = f"look up link {name_or_ifindex!r}"
    return Request(get_link(name_or_ifindex), doing, _link_found, harmless=(errno.ENODEV,))


def find_fdb_owner(bridge_ifindex: int, mac: str) -> Request[int]:
    """Ask whose MAC that is: the ifindex of the bridge or of one of its ports; 0 if neither's, or before Linux 5.0."""
    doing = f"look up {mac} in the forwarding database of link {bridge_ifindex}"
    # ENOENT: none has it; the others are those of kernels that do not know the request.
    return Request(get_fdb_entry(bridge_ifindex, mac), doing, _fdb_owner, harmless=_NO_FDB_ENTRY)


def link_in(frame: Frame) -> Link:
    """Return the link that a message of the kernel describes."""
    ifindex, flags = _INDEX_AND_FLAGS.unpack_from(frame.encoded, HEADER.size + 4)
    attribute = values(frame.encoded, LINK_BODY).get
    linkinfo = values(attribute(_IFLA_LINKINFO, b"")).get
    kind = _text(linkinfo(_IFLA_INFO_KIND, b""))
    bridge = linkinfo(_IFLA_INFO_DATA, b"") if kind == "bridge" else b""
    is_port = linkinfo(_IFLA_INFO_SLAVE_KIND) == b"bridge\0"
    port = values(linkinfo(_IFLA_INFO_SLAVE_DATA, b"")) if is_port else {}
    ipv6 = value(value(attribute(_IFLA_AF_SPEC, b""), AF_INET6), _IFLA_INET6_CONF)
    altnames = items(attribute(_IFLA_PROP_LIST, b""))
    return Link(
        ifindex=ifindex,
        name=_text(attribute(_IFLA_IFNAME, b"")),
        mac=attribute(_IFLA_ADDRESS, b"").hex(":"),
        mtu=uint32(attribute(_IFLA_MTU)),
        kind=kind,
        up=bool(flags & IFF_UP),
        oper_state=_OPER_STATES[attribute(_IFLA_OPERSTATE, b"\0")[0]],
        promiscuous=bool(flags & IFF_PROMISC),
        master=uint32(attribute(_IFLA_MASTER)),
        peer_ifindex=uint32(attribute(_IFLA_LINK)),
        alias=_text(attribute(_IFLA_IFALIAS, b"")),
        altnames=tuple(_text(name) for number, name in altnames if number == _IFLA_ALT_IFNAME),
        accepts_ra=any(ipv6[_DEVCONF_ACCEPT_RA * 4 :][:4]),
        vlan_filtering=any(value(bridge, _IFLA_BR_VLAN_FILTERING)),
        hairpin=any(port.get(_IFLA_BRPORT_MODE, b"")),
        isolated=any(port.get(_IFLA_BRPORT_ISOLATED, b"")),
        macvlan_mode=_macvlan_mode(linkinfo(_IFLA_INFO_DATA, b"")) if kind == "macvlan" else "",
    )


def _macvlan_mode(settings: bytes) -> str:
    number = uint32(value(settings, _IFLA_MACVLAN_MODE))
    return next((name for name, each in MACVLAN_MODES.items() if each == number), "")


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode(errors="replace")


def _link_found(frames: list[Frame] | None) -> Link | None:
    return link_in(frames[0]) if frames else None


def _fdb_owner(frames: list[Frame] | None) -> int:
    return int(_NDM_IFINDEX.unpack_from(frames[0].encoded, HEADER.size)[0]) if frames else 0
