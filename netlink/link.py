"""A link as the kernel describes it, and the requests that ask for that."""

import errno
import struct
from _socket import AF_BRIDGE, AF_INET6

from fast_stdlib.typing import Final, NamedTuple
from netlink import link_wire
from netlink.kinds import Details, details_of
from netlink.link_wire import get_link
from netlink.request import RtnlRequest
from netlink.wire import HEADER, Frame, hardware_address, items, message, number, string, uint32, value, values

_IFLA_OPERSTATE, _IFLA_PROP_LIST = 16, 52
_IFLA_INET6_CONF = 2
_DEVCONF_ACCEPT_RA = 3  # include/uapi/linux/ipv6.h
# include/uapi/linux/neighbour.h
RTM_GETNEIGH: Final = 30
NDMSG: Final = struct.Struct("=B3xiHBB")
"""struct ndmsg: family, ifindex, state, flags, type."""
NDA_LLADDR: Final = 2
_NDA_MASTER = 9
_NETNSID = struct.Struct("=i")
_NO_FDB_ENTRY = (errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL)
# include/uapi/linux/if.h, IF_OPER_*
_OPER_STATES = ("UNKNOWN", "NOTPRESENT", "DOWN", "LOWERLAYERDOWN", "TESTING", "DORMANT", "UP")


class Link(NamedTuple):
    """A link as it was when the kernel was asked."""

    ifindex: int
    name: str
    mac: str
    mtu: int
    """Bytes."""
    kind: str
    """"bridge", "veth", …; "" for hardware and lo."""
    up: bool
    """Whether it is set up, whatever its carrier."""
    oper_state: str
    """"UP", "DOWN", "LOWERLAYERDOWN", "UNKNOWN", … (RFC 2863)."""
    promiscuous: bool
    """Whether it is set so; a bridge's ports are promiscuous without it."""
    allmulticast: bool
    """Whether it is set to take all multicast frames."""
    tx_queue_len: int
    """Packets."""
    master: int
    """The ifindex of the bridge that it is a port of, or 0."""
    peer_ifindex: int
    """The ifindex of a veth's other end, or of the link below, in that link's own namespace; or 0."""
    peer_netnsid: int | None
    """This namespace's number for the namespace of `peer_ifindex`; None if it is in this one."""
    alias: str
    altnames: tuple[str, ...]
    accepts_ra: bool
    """Whether it takes routes from routers' advertisements (the kernel parameter `accept_ra`)."""
    details: Details
    """The settings of its kind, and as a bridge's port."""


def find_link(name_or_ifindex: str | int) -> RtnlRequest[Link | None]:
    """Ask for the link of that name, alternative name or ifindex; None if there is none."""
    doing = f"look up link {name_or_ifindex!r}"
    return RtnlRequest(get_link(name_or_ifindex), doing, _link_found, harmless=(errno.ENODEV,))


def find_fdb_owner(bridge_ifindex: int, mac: str) -> RtnlRequest[int]:
    """Ask whose MAC that is: the ifindex of the bridge or of one of its ports; 0 if neither's, or before Linux 5.0."""
    doing = f"look up {mac} in the forwarding database of link {bridge_ifindex}"
    # ENOENT: none has it. Kernels that do not know the request answer with the others.
    return RtnlRequest(get_fdb_entry(bridge_ifindex, mac), doing, _fdb_owner, harmless=_NO_FDB_ENTRY)


def get_fdb_entry(bridge_ifindex: int, mac: str) -> bytes:
    """Ask which port of a bridge has a MAC behind it, or is its owner. Since Linux 5.0."""
    body = NDMSG.pack(AF_BRIDGE, 0, 0, 0, 0) + hardware_address(NDA_LLADDR, mac) + number(_NDA_MASTER, bridge_ifindex)
    return message(RTM_GETNEIGH, body)


def link_in(frame: Frame) -> Link:
    """Return the link that a message of the kernel describes."""
    _, _, ifindex, flags, _ = link_wire.IFINFOMSG.unpack_from(frame.encoded, HEADER.size)
    attribute = values(frame.encoded, HEADER.size + link_wire.IFINFOMSG.size).get
    linkinfo = values(attribute(link_wire.IFLA_LINKINFO, b"")).get
    kind = string(linkinfo(link_wire.IFLA_INFO_KIND, b""))
    is_port = linkinfo(link_wire.IFLA_INFO_SLAVE_KIND) == b"bridge\0"
    ipv6 = value(value(attribute(link_wire.IFLA_AF_SPEC, b""), AF_INET6), _IFLA_INET6_CONF)
    altnames = items(attribute(_IFLA_PROP_LIST, b""))
    return Link(
        ifindex=ifindex,
        name=string(attribute(link_wire.IFLA_IFNAME, b"")),
        mac=attribute(link_wire.IFLA_ADDRESS, b"").hex(":"),
        mtu=uint32(attribute(link_wire.IFLA_MTU)),
        kind=kind,
        up=bool(flags & link_wire.IFF_UP),
        oper_state=_OPER_STATES[attribute(_IFLA_OPERSTATE, b"\0")[0]],
        promiscuous=bool(flags & link_wire.IFF_PROMISC),
        allmulticast=bool(flags & link_wire.IFF_ALLMULTI),
        tx_queue_len=uint32(attribute(link_wire.IFLA_TXQLEN)),
        master=uint32(attribute(link_wire.IFLA_MASTER)),
        peer_ifindex=uint32(attribute(link_wire.IFLA_LINK)),
        peer_netnsid=_netnsid(attribute(link_wire.IFLA_LINK_NETNSID)),
        alias=string(attribute(link_wire.IFLA_IFALIAS, b"")),
        altnames=tuple(string(name) for number, name in altnames if number == link_wire.IFLA_ALT_IFNAME),
        accepts_ra=any(ipv6[_DEVCONF_ACCEPT_RA * 4 :][:4]),
        details=details_of(
            kind,
            linkinfo(link_wire.IFLA_INFO_DATA, b""),
            linkinfo(link_wire.IFLA_INFO_SLAVE_DATA, b"") if is_port else b"",
        ),
    )


def _netnsid(encoded: bytes | None) -> int | None:
    # -1: the other namespace is dying.
    return None if encoded is None else int(_NETNSID.unpack(encoded)[0])


def _link_found(frames: list[Frame] | None) -> Link | None:
    return link_in(frames[0]) if frames else None


def _fdb_owner(frames: list[Frame] | None) -> int:
    return int(NDMSG.unpack_from(frames[0].encoded, HEADER.size)[1]) if frames else 0
