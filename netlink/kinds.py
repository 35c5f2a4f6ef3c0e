"""Settings of the kinds of links, as the payload (IFLA_INFO_DATA) of `Rtnl.create_link`.

Wire format: include/uapi/linux/if_link.h and veth.h; names are theirs. A kind without settings (dummy) needs none.
"""

import struct

from lean.typing import Final
from netlink.attributes import attribute, number, text
from netlink.namespace import Namespace

__all__ = ["MACVLAN_MODES", "bridge", "macvlan", "veth"]

MACVLAN_MODES: Final = {"private": 1, "vepa": 2, "bridge": 4, "passthru": 8}
"""The modes of a macvlan by the names of ip-link(8), as the kernel numbers them."""

_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_NET_NS_FD = 1, 3, 4, 28
_IFLA_BR_VLAN_FILTERING = 7
_IFLA_MACVLAN_MODE, _IFLA_MACVLAN_BC_QUEUE_LEN = 1, 7
_VETH_INFO_PEER = 1
_NO_IFINFOMSG = bytes(struct.calcsize("=BxHiII"))


def bridge(*, vlan_filtering: bool = False) -> bytes:
    """Return the settings of a bridge."""
    return attribute(_IFLA_BR_VLAN_FILTERING, b"\1") if vlan_filtering else b""


def macvlan(*, mode: str, bcqueuelen: int = 0) -> bytes:
    """Return the settings of a macvlan; `mode` is one of MACVLAN_MODES.

    `bcqueuelen`: packets that the queue for broadcasts may hold, 0 for the kernel's 1000. Before Linux 5.11 the
    kernel ignores it.
    """
    queue = number(_IFLA_MACVLAN_BC_QUEUE_LEN, bcqueuelen) if bcqueuelen else b""
    return number(_IFLA_MACVLAN_MODE, MACVLAN_MODES[mode]) + queue


def veth(*, peer_name: str, peer_namespace: Namespace, peer_mac: str = "", peer_mtu: int = 0) -> bytes:
    """Return the settings of a veth pair, of which the peer is born, down, in `peer_namespace`.

    The peer cannot be born up: its driver refuses to open it until it has its other end.
    """
    peer = _NO_IFINFOMSG + text(_IFLA_IFNAME, peer_name) + number(_IFLA_NET_NS_FD, peer_namespace.fd)
    if peer_mtu:
        peer += number(_IFLA_MTU, peer_mtu)
    if peer_mac:
        peer += attribute(_IFLA_ADDRESS, bytes.fromhex(peer_mac.replace(":", "")))
    return attribute(_VETH_INFO_PEER, peer)
