"""Settings of the kinds of links: the payload (IFLA_INFO_DATA) of `Rtnl.create_link`, and the details of a `Link`.

Wire format: include/uapi/linux/if_link.h and veth.h; names are theirs. A kind without settings, such as dummy, needs
no function here. Another kind is a function that writes its payload. To show it in `Link.details` takes a function that
reads it, and a line in `_READERS`.
"""

import struct

from fast_stdlib.typing import TYPE_CHECKING, Callable, Final, Mapping, NamedTuple
from netlink.link_wire import IFINFOMSG, attributes_of_link
from netlink.namespace import Namespace
from netlink.wire import attribute, flag, nested, number, uint32, value, values

if TYPE_CHECKING:
    from netlink.routes import Address

PAIRS: Final = frozenset({"netkit", "veth"})
"""Kinds of which two links are made at once, connected to each other, and deleted at once."""

IPVLAN_MODES: Final = {"l2": 0, "l3": 1, "l3s": 2}
"""The modes of an ipvlan by the names of ip-link(8), as the kernel numbers them."""

MACVLAN_MODES: Final = {"private": 1, "vepa": 2, "bridge": 4, "passthru": 8}
"""The modes of a macvlan by the names of ip-link(8), as the kernel numbers them."""

VXLAN_OVERHEAD: Final = {4: 50, 6: 70}
"""Bytes that a VXLAN tunnel adds to a packet, by the IP version of its ends: IP, UDP, VXLAN and Ethernet headers."""

_IFLA_BR_VLAN_FILTERING = 7
_IFLA_BRPORT_MODE, _IFLA_BRPORT_ISOLATED = 4, 33
_IFLA_MACVLAN_MODE, _IFLA_MACVLAN_BC_QUEUE_LEN = 1, 7
_IFLA_IPVLAN_MODE = 1
_IFLA_VLAN_ID = 1
_VETH_INFO_PEER = 1
_IFLA_VRF_TABLE = 1
_IFLA_VXLAN_ID, _IFLA_VXLAN_LOCAL, _IFLA_VXLAN_LEARNING, _IFLA_VXLAN_PORT, _IFLA_VXLAN_LOCAL6 = 1, 4, 7, 15, 17
_IFLA_NETKIT_PEER_INFO, _IFLA_NETKIT_MODE = 1, 5
_NETKIT_L2 = 0
_IPV4 = 4
_UINT16 = struct.Struct("=H")
_PORT = struct.Struct("!H")
_IFLA_TUN_OWNER, _IFLA_TUN_GROUP, _IFLA_TUN_TYPE, _IFLA_TUN_MULTI_QUEUE = 1, 2, 3, 7
_IFF_TAP = 2  # include/uapi/linux/if_tun.h


class Vxlan(NamedTuple):
    """Settings of a VXLAN link: a tunnel over UDP to any number of ends (RFC 7348)."""

    vni: int
    """The number of the network, of 24 bits."""
    local: "Address | None"
    """The address of this end, the source of its packets; None for any."""
    port: int
    """The UDP port of all ends."""
    learning: bool
    """Whether the link learns from frames which end has a hardware address."""


class Details(NamedTuple):
    """Settings that only some kinds of links have; other kinds have these defaults."""

    vlan_filtering: bool = False
    """Of a bridge."""
    macvlan_mode: str = ""
    """One of MACVLAN_MODES."""
    ipvlan_mode: str = ""
    """One of IPVLAN_MODES."""
    vlan_id: int = -1
    """Of a VLAN interface; -1 for other kinds."""
    hairpin: bool = False
    """Of a bridge's port, as is `isolated`."""
    isolated: bool = False
    vrf_table: int = 0
    """The routing table of a VRF."""
    is_tap: bool = False
    """Of a tun: whether it carries Ethernet frames, as a tap."""
    multi_queue: bool = False
    """Of a tun, as are `owner` and `group`."""
    owner: int | None = None
    """The user ID that may open it, None for any."""
    group: int | None = None
    vxlan: Vxlan | None = None


NO_DETAILS: Final = Details()


def bridge(*, vlan_filtering: bool = False) -> bytes:
    """Return the settings of a bridge."""
    return flag(_IFLA_BR_VLAN_FILTERING, True) if vlan_filtering else b""  # noqa: FBT003 - its value


def bridge_port(*, hairpin: bool, isolated: bool) -> bytes:
    """Return the settings of a bridge's port (IFLA_INFO_SLAVE_DATA).

    `hairpin`: frames may leave by the port they came in by; `isolated`: none go to another isolated port.
    """
    return flag(_IFLA_BRPORT_MODE, hairpin) + flag(_IFLA_BRPORT_ISOLATED, isolated)


def macvlan(*, mode: str, bcqueuelen: int = 0) -> bytes:
    """Return the settings of a macvlan; `mode` is one of MACVLAN_MODES.

    `bcqueuelen`: packets that the queue for broadcasts may hold, 0 for the kernel's 1000. Before Linux 5.11 the
    kernel ignores it.
    """
    queue = number(_IFLA_MACVLAN_BC_QUEUE_LEN, bcqueuelen) if bcqueuelen else b""
    return number(_IFLA_MACVLAN_MODE, MACVLAN_MODES[mode]) + queue


def ipvlan(*, mode: str) -> bytes:
    """Return the settings of an ipvlan; `mode` is one of IPVLAN_MODES, and becomes that of all on the same link."""
    return attribute(_IFLA_IPVLAN_MODE, _UINT16.pack(IPVLAN_MODES[mode]))


def vlan(*, vlan_id: int) -> bytes:
    """Return the settings of a VLAN interface (802.1Q), of which a link has at most one for each ID."""
    return attribute(_IFLA_VLAN_ID, _UINT16.pack(vlan_id))


def veth(*, peer_name: str, peer_namespace: Namespace, peer_mac: str = "", peer_mtu: int = 0) -> bytes:
    """Return the settings of a veth pair, of which the peer is made, down, in `peer_namespace`.

    The peer cannot be made up: its driver refuses to open it until it has its other end.
    """
    return _peer(_VETH_INFO_PEER, peer_name, peer_namespace, peer_mac, peer_mtu)


def netkit(*, peer_name: str, peer_namespace: Namespace, peer_mac: str = "", peer_mtu: int = 0) -> bytes:
    """Return the settings of a netkit pair, with MACs and ARP (mode L2), of which both ends forward. Since Linux 6.7.

    The peer is as of `veth`. Before Linux 6.12 the kernel refuses a MAC (EOPNOTSUPP).
    """
    peer = _peer(_IFLA_NETKIT_PEER_INFO, peer_name, peer_namespace, peer_mac, peer_mtu)
    return peer + number(_IFLA_NETKIT_MODE, _NETKIT_L2)


def vrf(*, table: int) -> bytes:
    """Return the settings of a VRF: the number of its routing table."""
    return number(_IFLA_VRF_TABLE, table)


def vxlan(settings: Vxlan) -> bytes:
    """Return the settings of a VXLAN link; it is bound to no other link, and follows the routes to its ends."""
    local = b""
    if settings.local is not None:
        kind = _IFLA_VXLAN_LOCAL if settings.local.version == _IPV4 else _IFLA_VXLAN_LOCAL6
        local = attribute(kind, settings.local.packed)
    port = attribute(_IFLA_VXLAN_PORT, _PORT.pack(settings.port))
    return number(_IFLA_VXLAN_ID, settings.vni) + local + flag(_IFLA_VXLAN_LEARNING, settings.learning) + port


def details_of(kind: str, data: bytes, port_data: bytes) -> Details:
    """Return the details in a link's IFLA_INFO_DATA, and in the IFLA_INFO_SLAVE_DATA of a bridge's port."""
    read = _READERS.get(kind)
    details = read(data) if read is not None else NO_DETAILS
    if not port_data:
        return details
    hairpin, isolated = (any(value(port_data, number)) for number in (_IFLA_BRPORT_MODE, _IFLA_BRPORT_ISOLATED))
    return details._replace(hairpin=hairpin, isolated=isolated) if hairpin or isolated else details


def _peer(kind: int, name: str, namespace: Namespace, mac: str, mtu: int) -> bytes:
    given = attributes_of_link(name=name, mtu=mtu, mac=mac, namespace=namespace)
    return nested(kind, IFINFOMSG.pack(0, 0, 0, 0, 0), given)


def _bridge(data: bytes) -> Details:
    return Details(vlan_filtering=True) if any(value(data, _IFLA_BR_VLAN_FILTERING)) else NO_DETAILS


def _macvlan(data: bytes) -> Details:
    return Details(macvlan_mode=_name(MACVLAN_MODES, uint32(value(data, _IFLA_MACVLAN_MODE))))


def _vrf(data: bytes) -> Details:
    return Details(vrf_table=uint32(value(data, _IFLA_VRF_TABLE)))


def _ipvlan(data: bytes) -> Details:
    return Details(ipvlan_mode=_name(IPVLAN_MODES, _uint16(value(data, _IFLA_IPVLAN_MODE))))


def _vlan(data: bytes) -> Details:
    return Details(vlan_id=_uint16(value(data, _IFLA_VLAN_ID)))


def _vxlan(data: bytes) -> Details:
    from netlink.routes import address_of

    found = values(data).get
    local = found(_IFLA_VXLAN_LOCAL) or found(_IFLA_VXLAN_LOCAL6)
    (port,) = _PORT.unpack(found(_IFLA_VXLAN_PORT, bytes(_PORT.size)))
    learning = any(found(_IFLA_VXLAN_LEARNING, b""))
    return Details(vxlan=Vxlan(uint32(found(_IFLA_VXLAN_ID)), address_of(local), port, learning))


def _uint16(content: bytes) -> int:
    return int(_UINT16.unpack(content)[0])


def _name(modes: Mapping[str, int], number_of_mode: int) -> str:
    return "".join(name for name, number in modes.items() if number == number_of_mode)


def _tun(data: bytes) -> Details:
    found = values(data).get
    owner, group = found(_IFLA_TUN_OWNER), found(_IFLA_TUN_GROUP)
    return Details(
        is_tap=found(_IFLA_TUN_TYPE, b"")[:1] == bytes([_IFF_TAP]),
        multi_queue=any(found(_IFLA_TUN_MULTI_QUEUE, b"")),
        owner=uint32(owner) if owner else None,
        group=uint32(group) if group else None,
    )


_READERS: Mapping[str, Callable[[bytes], Details]] = {
    "bridge": _bridge,
    "ipvlan": _ipvlan,
    "macvlan": _macvlan,
    "tun": _tun,
    "vlan": _vlan,
    "vrf": _vrf,
    "vxlan": _vxlan,
}
