"""Requests to rtnetlink(7), built and not yet sent; `Rtnl.execute` sends any number of them in one system call.

Those of every ADD are bytes; the others are made by pyroute2, which is loaded when the first of them is.
Links are given by ifindex or, where the kernel takes one, by name. Names of types, flags and attributes are those of
include/uapi/linux/rtnetlink.h, if_link.h, if_addr.h and if_bridge.h.
"""

from _socket import AF_BRIDGE, AF_INET, AF_INET6
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from lean.typing import Any
from netlink.address_wire import delete_address, get_addresses, new_address
from netlink.codec import Message, build
from netlink.link_wire import (
    IFF_PROMISC,
    IFF_UP,
    IFNAME_LENGTH,
    change_link,
    change_port,
    delete_link,
    get_fdb_entry,
    get_link,
    new_link,
    notify_by_arp,
)
from netlink.route_wire import RT_SCOPE_UNIVERSE, RT_TABLE_MAIN, new_route

__all__ = [
    "IFF_PROMISC",
    "IFF_UP",
    "IFNAME_LENGTH",
    "RT_SCOPE_UNIVERSE",
    "RT_TABLE_MAIN",
    "change_link",
    "change_port",
    "change_vlan",
    "delete_address",
    "delete_link",
    "delete_route",
    "get_addresses",
    "get_fdb_entry",
    "get_link",
    "get_links",
    "get_routes",
    "get_vlans",
    "new_address",
    "new_link",
    "new_route",
    "notify_by_arp",
]

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

_RTM_DELLINK, _RTM_GETLINK, _RTM_SETLINK = 17, 18, 19
_RTM_DELROUTE, _RTM_GETROUTE = 25, 26
_RTM_GETVLAN = 114
_RTEXT_FILTER_SKIP_STATS = 1 << 3
_BRIDGE_FLAGS_MASTER = 1
_BRIDGE_VLAN_INFO_PVID, _BRIDGE_VLAN_INFO_UNTAGGED = 1 << 1, 1 << 2
_BRIDGE_VLAN_INFO_RANGE_BEGIN, _BRIDGE_VLAN_INFO_RANGE_END = 1 << 3, 1 << 4
_RT_SCOPE_NOWHERE = 255

_Attributes = list[tuple[str, Any]]


def get_links(*, master: int = 0) -> Message:
    """Ask for all links, or those that are ports of `master`."""
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    attributes = [*_present(IFLA_MASTER=master), ("IFLA_EXT_MASK", _RTEXT_FILTER_SKIP_STATS)]
    return build(ifinfmsg, _RTM_GETLINK, attributes)


def change_vlan(
    ifindex: int,
    vid: int,
    *,
    through: int = 0,
    pvid: bool = False,
    untagged: bool = False,
    delete: bool = False,
) -> Message:
    """Add or delete VLAN `vid`, or all from `vid` through `through`, of a port."""
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    flags = (_BRIDGE_VLAN_INFO_PVID if pvid else 0) | (_BRIDGE_VLAN_INFO_UNTAGGED if untagged else 0)
    if through > vid:
        vlans = [
            {"flags": flags | _BRIDGE_VLAN_INFO_RANGE_BEGIN, "vid": vid},
            {"flags": flags | _BRIDGE_VLAN_INFO_RANGE_END, "vid": through},
        ]
    else:
        vlans = [{"flags": flags, "vid": vid}]
    attributes: _Attributes = [("IFLA_BRIDGE_FLAGS", _BRIDGE_FLAGS_MASTER)]
    attributes += [("IFLA_BRIDGE_VLAN_INFO", vlan) for vlan in vlans]
    kind = _RTM_DELLINK if delete else _RTM_SETLINK
    return build(ifinfmsg, kind, [("IFLA_AF_SPEC", {"attrs": attributes})], family=AF_BRIDGE, index=ifindex)


def get_vlans(ifindex: int) -> Message:
    """Ask for the VLANs of one port."""
    from pyroute2.netlink.rtnl.br_vlan import br_vlan_query

    return build(br_vlan_query, _RTM_GETVLAN, family=AF_BRIDGE, ifindex=ifindex)


def get_routes(family: int, *, table: int | None = RT_TABLE_MAIN, ifindex: int = 0) -> Message:
    """Ask for the routes of one table (None: of all), or those of them that leave through one link."""
    from pyroute2.netlink.rtnl.rtmsg import rtmsg

    attributes: _Attributes = _present(RTA_OIF=ifindex)
    if table is not None:
        attributes.append(("RTA_TABLE", table))
    return build(rtmsg, _RTM_GETROUTE, attributes, family=family)


def delete_route(
    dst: Network, *, ifindex: int = 0, gateway: Address | None = None, priority: int = 0, table: int | None = None
) -> Message:
    """Delete the first route to `dst` that fits what is given."""
    from pyroute2.netlink.rtnl.rtmsg import rtmsg

    attributes: _Attributes = _present(RTA_OIF=ifindex, RTA_PRIORITY=priority, RTA_GATEWAY=str(gateway or ""))
    if dst.prefixlen:
        attributes.insert(0, ("RTA_DST", str(dst.network_address)))
    attributes.append(("RTA_TABLE", RT_TABLE_MAIN if table is None else table))
    family = AF_INET if dst.version == 4 else AF_INET6  # noqa: PLR2004 - the versions of IP
    return build(rtmsg, _RTM_DELROUTE, attributes, family=family, dst_len=dst.prefixlen, scope=_RT_SCOPE_NOWHERE)


def _present(**attributes: str | int) -> _Attributes:
    return [(name, value) for name, value in attributes.items() if value]
