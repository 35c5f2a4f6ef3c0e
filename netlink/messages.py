"""Requests to rtnetlink(7), built and not yet sent; `Rtnl.execute` sends any number of them in one system call.

Links are given by index or, where the kernel takes one, by name. Names of types, flags and attributes are those of
include/uapi/linux/rtnetlink.h, if_link.h, if_addr.h and if_bridge.h.
"""

from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from socket import AF_BRIDGE, AF_INET, AF_INET6
from typing import Any, Final

from pyroute2.netlink.rtnl.br_vlan import br_vlan_query
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from netlink.codec import Message, build
from netlink.namespace import Namespace
from netlink.route_wire import RT_SCOPE_UNIVERSE, RT_TABLE_MAIN, new_route
from netlink.socket import NLM_F_CREATE, NLM_F_EXCL

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
    "get_link",
    "get_links",
    "get_routes",
    "get_vlans",
    "new_address",
    "new_bridge",
    "new_route",
    "new_veth",
]

Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

IFF_UP: Final = 0x1
IFF_PROMISC: Final = 0x100
IFNAME_LENGTH: Final = 15
"""Bytes in the longest name of a link; alternative names may be longer."""

_RTM_NEWLINK, _RTM_DELLINK, _RTM_GETLINK, _RTM_SETLINK = 16, 17, 18, 19
_RTM_NEWADDR, _RTM_DELADDR, _RTM_GETADDR = 20, 21, 22
_RTM_DELROUTE, _RTM_GETROUTE = 25, 26
_RTM_GETVLAN = 114
_RTEXT_FILTER_SKIP_STATS = 1 << 3
_BRIDGE_FLAGS_MASTER = 1
_BRIDGE_VLAN_INFO_PVID, _BRIDGE_VLAN_INFO_UNTAGGED = 1 << 1, 1 << 2
_BRIDGE_VLAN_INFO_RANGE_BEGIN, _BRIDGE_VLAN_INFO_RANGE_END = 1 << 3, 1 << 4
_IFA_F_NODAD = 0x02
_RT_SCOPE_NOWHERE = 255
# A network of two addresses or one has none to spare for broadcasts (RFC 3021).
_LONGEST_WITH_BROADCAST = 30

_Attributes = list[tuple[str, Any]]
_EXCLUSIVELY = NLM_F_CREATE | NLM_F_EXCL
_NO_STATISTICS: _Attributes = [("IFLA_EXT_MASK", _RTEXT_FILTER_SKIP_STATS)]


def get_link(name_or_index: str | int) -> Message:
    """Ask for one link, by index, name or alternative name."""
    index, attributes = _named(name_or_index)
    return build(ifinfmsg, _RTM_GETLINK, attributes + _NO_STATISTICS, index=index)


def get_links(*, master: int = 0) -> Message:
    """Ask for all links, or those that are ports of `master`."""
    attributes: _Attributes = [("IFLA_MASTER", master)] if master else []
    return build(ifinfmsg, _RTM_GETLINK, attributes + _NO_STATISTICS)


def new_bridge(name: str, *, mtu: int = 0, mac: str = "", vlan_filtering: bool = False) -> Message:
    """Make a bridge that is down."""
    linkinfo: _Attributes = [("IFLA_INFO_KIND", "bridge")]
    if vlan_filtering:
        linkinfo.append(("IFLA_INFO_DATA", {"attrs": [("IFLA_BR_VLAN_FILTERING", 1)]}))
    attributes = [
        ("IFLA_IFNAME", name),
        *_present(IFLA_MTU=mtu, IFLA_ADDRESS=mac),
        ("IFLA_LINKINFO", {"attrs": linkinfo}),
    ]
    return build(ifinfmsg, _RTM_NEWLINK, attributes, nlm_flags=_EXCLUSIVELY)


def new_veth(  # noqa: PLR0913 - what a link may be born with, each by its name
    name: str,
    *,
    peer_name: str,
    peer_namespace: Namespace,
    mtu: int = 0,
    mac: str = "",
    peer_mac: str = "",
    master: int = 0,
    up: bool = True,
) -> Message:
    """Make a pair of which one end is here and the other, down, in `peer_namespace`.

    The peer cannot be born up: its own driver refuses to open it as long as it has no other end. An alias or settings
    of a bridge port in the same message would be ignored.
    """
    peer = [
        ("IFLA_IFNAME", peer_name),
        ("IFLA_NET_NS_FD", peer_namespace.fd),
        *_present(IFLA_MTU=mtu, IFLA_ADDRESS=peer_mac),
    ]
    linkinfo = [
        ("IFLA_INFO_KIND", "veth"),
        ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", {"attrs": peer})]}),
    ]
    attributes = [
        ("IFLA_IFNAME", name),
        *_present(IFLA_MTU=mtu, IFLA_ADDRESS=mac, IFLA_MASTER=master),
        ("IFLA_LINKINFO", {"attrs": linkinfo}),
    ]
    flags = IFF_UP if up else 0
    return build(ifinfmsg, _RTM_NEWLINK, attributes, nlm_flags=_EXCLUSIVELY, flags=flags, change=flags)


def change_link(
    index: int,
    *,
    up: bool | None = None,
    promiscuous: bool | None = None,
    mac: str | None = None,
    mtu: int | None = None,
    alias: str | None = None,
) -> Message:
    """Change what is not None; an alias is a text of at most 255 bytes that is only shown."""
    flags = change = 0
    for wanted, flag in ((up, IFF_UP), (promiscuous, IFF_PROMISC)):
        if wanted is not None:
            change |= flag
            flags |= flag if wanted else 0
    values = {"IFLA_ADDRESS": mac, "IFLA_MTU": mtu, "IFLA_IFALIAS": alias}
    attributes: _Attributes = [(attribute, value) for attribute, value in values.items() if value is not None]
    return build(ifinfmsg, _RTM_NEWLINK, attributes, index=index, flags=flags, change=change)


def delete_link(name_or_index: str | int) -> Message:
    """Delete a link, and with a veth its peer."""
    index, attributes = _named(name_or_index)
    return build(ifinfmsg, _RTM_DELLINK, attributes, index=index)


def change_port(index: int, *, hairpin: bool, isolated: bool) -> Message:
    """Have a bridge's port send frames back where they came from, or to no other isolated port."""
    # RTM_SETLINK would ignore these without a word.
    port = [("IFLA_BRPORT_MODE", int(hairpin)), ("IFLA_BRPORT_ISOLATED", int(isolated))]
    linkinfo = [("IFLA_INFO_SLAVE_KIND", "bridge"), ("IFLA_INFO_SLAVE_DATA", {"attrs": port})]
    return build(ifinfmsg, _RTM_NEWLINK, [("IFLA_LINKINFO", {"attrs": linkinfo})], index=index)


def change_vlan(
    index: int,
    vid: int,
    *,
    through: int = 0,
    pvid: bool = False,
    untagged: bool = False,
    delete: bool = False,
) -> Message:
    """Add or delete VLAN `vid`, or all from `vid` through `through`, of a port."""
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
    return build(ifinfmsg, kind, [("IFLA_AF_SPEC", {"attrs": attributes})], family=AF_BRIDGE, index=index)


def get_vlans(index: int) -> Message:
    """Ask for the VLANs of one port."""
    return build(br_vlan_query, _RTM_GETVLAN, family=AF_BRIDGE, ifindex=index)


def get_addresses(index: int, family: int = 0) -> Message:
    """Ask for the addresses of one link, of both families if `family` is 0."""
    return build(ifaddrmsg, _RTM_GETADDR, family=family, index=index)


def new_address(index: int, interface: Interface, *, nodad: bool = False) -> Message:
    """Add an address, with the network's broadcast address if it is IPv4.

    IPv6: `nodad` skips duplicate address detection.
    """
    attributes: _Attributes = [("IFA_FLAGS", _IFA_F_NODAD if nodad else 0)]
    if interface.version == 4 and interface.network.prefixlen <= _LONGEST_WITH_BROADCAST:  # noqa: PLR2004
        attributes.append(("IFA_BROADCAST", str(interface.network.broadcast_address)))
    return _address(_RTM_NEWADDR, index, interface, attributes, _EXCLUSIVELY)


def delete_address(index: int, interface: Interface) -> Message:
    """Take an address away."""
    return _address(_RTM_DELADDR, index, interface, [], 0)


def get_routes(family: int, *, table: int | None = RT_TABLE_MAIN, index: int = 0) -> Message:
    """Ask for the routes of one table (None: of all), or those of them that leave through one link."""
    attributes: _Attributes = _present(RTA_OIF=index)
    if table is not None:
        attributes.append(("RTA_TABLE", table))
    return build(rtmsg, _RTM_GETROUTE, attributes, family=family)


def delete_route(
    dst: Network, *, index: int = 0, gateway: Address | None = None, priority: int = 0, table: int | None = None
) -> Message:
    """Delete the first route to `dst` that fits what is given."""
    attributes = _present(RTA_OIF=index, RTA_PRIORITY=priority, RTA_GATEWAY=str(gateway or ""))
    return _route(_RTM_DELROUTE, dst, attributes, table=table, scope=_RT_SCOPE_NOWHERE)


def _named(name_or_index: str | int) -> tuple[int, _Attributes]:
    if isinstance(name_or_index, int):
        return name_or_index, []
    if len(name_or_index.encode()) > IFNAME_LENGTH:
        return 0, [("IFLA_ALT_IFNAME", name_or_index)]
    return 0, [("IFLA_IFNAME", name_or_index)]


def _present(**attributes: str | int) -> _Attributes:
    return [(name, value) for name, value in attributes.items() if value]


def _address(kind: int, index: int, interface: Interface, attributes: _Attributes, nlm_flags: int) -> Message:
    address = str(interface.ip)
    return build(
        ifaddrmsg,
        kind,
        [("IFA_LOCAL", address), ("IFA_ADDRESS", address), *attributes],
        nlm_flags=nlm_flags,
        family=_family(interface.version),
        prefixlen=interface.network.prefixlen,
        index=index,
    )


def _route(
    kind: int, dst: Network, attributes: _Attributes, *, table: int | None, nlm_flags: int = 0, **fields: int
) -> Message:
    if dst.prefixlen:
        attributes = [("RTA_DST", str(dst.network_address)), *attributes]
    return build(
        rtmsg,
        kind,
        [*attributes, ("RTA_TABLE", RT_TABLE_MAIN if table is None else table)],
        nlm_flags=nlm_flags,
        family=_family(dst.version),
        dst_len=dst.prefixlen,
        **fields,
    )


def _family(version: int) -> int:
    return AF_INET if version == 4 else AF_INET6  # noqa: PLR2004 - the versions of IP
