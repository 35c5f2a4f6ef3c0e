"""Routes.

pyroute2 takes 300 µs to write one route and more to read one, which a network with thousands of them cannot afford.
`new_route` and `routes_in` take a few. Wire format: include/uapi/linux/rtnetlink.h.
"""

import errno
import struct
from _socket import AF_INET, AF_INET6
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from fast_stdlib.functools import partial
from fast_stdlib.typing import Final, Iterator, NamedTuple
from netlink.request import RtnlRequest, RtnlSocket, change
from netlink.wire import (
    HEADER,
    NLM_F_CREATE,
    NLM_F_EXCL,
    Frame,
    NetlinkError,
    attribute,
    message,
    number,
    uint32,
    values,
)

RT_TABLE_MAIN: Final = 254
RT_SCOPE_UNIVERSE: Final = 0
RT_TABLE_COMPAT: Final = 252
"""In the header of a message about a table whose number has more than eight bits."""
RTM_NEWROUTE: Final = 24
_RTM_DELROUTE, _RTM_GETROUTE = 25, 26
_RTN_UNICAST = 1
_RTPROT_BOOT = 3
MAKERS: Final = {2: "kernel", 3: "boot", 4: "static", 9: "ra", 11: "zebra", 12: "bird", 16: "dhcp", 186: "bgp"}
"""Makers of routes, RTPROT_*, by the names of ip-route(8)."""
_RTNH_F_ONLINK = 4
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_METRICS, _RTA_MULTIPATH, _RTA_TABLE = 1, 4, 5, 6, 8, 9, 15
_RTA_VIA, _RTA_NH_ID = 18, 30
"""A gateway of the other family: its family in two bytes, and the address."""
_RTAX_MTU, _RTAX_ADVMSS = 2, 8
_IPV4 = 4

RTMSG: Final = struct.Struct("=8BI")
"""struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags."""
RTNEXTHOP: Final = struct.Struct("=HBBi")
"""struct rtnexthop: length, flags, hops, ifindex."""
_BODY = HEADER.size + RTMSG.size

_NO_ROUTE = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EINVAL, errno.ENODATA, errno.EOPNOTSUPP}
)
"""Answers to a look-up: no route, or one that is unreachable, prohibited or a black hole."""

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


class KernelRoute(NamedTuple):
    """A route as it was when the kernel was asked; a multipath route is one for each of its paths."""

    dst: Network
    gateway: Address | None
    ifindex: int
    """Of the link it leaves through, or 0."""
    mtu: int
    """Bytes; 0 for that of the link. The same holds for `advmss`."""
    advmss: int
    priority: int
    table: int
    scope: int
    """RT_SCOPE_*: 0 universe, 253 link, 254 host."""
    kind: int
    """RTN_*: 1 unicast, 2 local, 3 broadcast, 6 blackhole, 7 unreachable, …"""
    protocol: int
    """RTPROT_*, its maker: 2 the kernel, 3 a program."""
    tos: int = 0
    """For packets with these bits alone (IPv4); 0 for all."""
    is_path: bool = False
    """Whether it is one of several paths, or belongs to a nexthop object: then it can only be deleted whole."""


class RouteVerbs(RtnlSocket):
    """Routes; each verb raises NetlinkError."""

    def routes(self, family: int, *, table: int | None = RT_TABLE_MAIN, ifindex: int = 0) -> list[KernelRoute]:
        """Return the routes of `family` (AF_INET, AF_INET6) in one table, or with None in all, in no certain order.

        With `ifindex`, only those that leave through that link.
        """
        request = get_routes(family, table=table, ifindex=ifindex)
        try:
            frames = self.dump(request, doing="list routes")
        except NetlinkError as error:
            if error.errno == errno.ENOENT:  # the table is unused yet
                return []
            raise
        # A multipath route is given whole when one of its paths is asked for.
        return [route for frame in frames for route in routes_in(frame.encoded) if ifindex in {0, route.ifindex}]

    def route_to(self, address: Address) -> KernelRoute | None:
        """Return the route that a packet of this host to `address` takes; None if there is no route."""
        return self._asked(find_route_to(address))

    def add_route(  # noqa: PLR0913 - the parts of a route, each by its name
        self,
        ifindex: int,
        dst: IPv4Network | IPv6Network,
        *,
        gateway: IPv4Address | IPv6Address | None = None,
        mtu: int = 0,
        advmss: int = 0,
        priority: int = 0,
        table: int | None = None,
        scope: int | None = None,
    ) -> None:
        """Add a route to `dst` through a link; see `new_route`. Raises NetlinkError: EEXIST for an equal one.

        `mtu` and `advmss` are in bytes, 0 for the values that follow from the link's MTU. The table is main and the
        scope universe unless given. An IPv6 priority of 0 is 1024.
        """
        request = new_route(
            ifindex, dst, gateway=gateway, mtu=mtu, advmss=advmss, priority=priority, table=table, scope=scope
        )
        self.send(add_route(request))


def find_route_to(address: Address) -> RtnlRequest[KernelRoute | None]:
    """Ask for the route that a packet of this host to `address` takes, None if there is none."""
    return RtnlRequest(get_route_to(address), f"look up the route to {address}", _first_route, harmless=_NO_ROUTE)


def add_route(encoded: bytes) -> RtnlRequest[bool]:
    """Ask for a route that `new_route` made; an error names its destination, gateway and link."""
    return change(encoded, partial(_adding, encoded))


def _adding(encoded: bytes) -> str:
    route = next(routes_in(encoded))
    via = f" via {route.gateway}" if route.gateway else ""
    return f"add route to {route.dst}{via} through link {route.ifindex}"


def new_route(  # noqa: PLR0913 - the parts of a route, each by its name
    ifindex: int,
    dst: Network,
    *,
    gateway: Address | None = None,
    mtu: int = 0,
    advmss: int = 0,
    priority: int = 0,
    table: int | None = None,
    scope: int | None = None,
    protocol: int = _RTPROT_BOOT,
    onlink: bool = False,
    exclusive: bool = False,
) -> bytes:
    """Add a route to `dst` through a link, as `RouteVerbs.add_route` does.

    If a route with this destination and priority exists, this adds one more: the kernel refuses only an equal one
    (EEXIST). IPv6 makes them one multipath route; of several with IPv4, the newest is used. With `exclusive` it refuses
    any other one. `protocol` (RTPROT_*) names the maker. `onlink`: the gateway is on the link, whatever routes say.
    """
    table = RT_TABLE_MAIN if table is None else table
    metrics = _numbers((_RTAX_MTU, mtu), (_RTAX_ADVMSS, advmss))
    attributes = b"".join(
        (
            attribute(_RTA_DST, dst.network_address.packed) if dst.prefixlen else b"",
            _numbers((_RTA_OIF, ifindex), (_RTA_PRIORITY, priority)),
            attribute(_RTA_GATEWAY, gateway.packed) if gateway is not None else b"",
            attribute(_RTA_METRICS, metrics) if metrics else b"",
            number(_RTA_TABLE, table),
        )
    )
    fixed = RTMSG.pack(
        AF_INET if dst.version == _IPV4 else AF_INET6,
        dst.prefixlen,
        0,
        0,
        table if table <= RT_TABLE_MAIN else RT_TABLE_COMPAT,
        protocol,
        RT_SCOPE_UNIVERSE if scope is None else scope,
        _RTN_UNICAST,
        _RTNH_F_ONLINK if onlink else 0,
    )
    return message(RTM_NEWROUTE, fixed + attributes, NLM_F_CREATE | (NLM_F_EXCL if exclusive else 0))


def delete_route(route: KernelRoute) -> RtnlRequest[bool]:
    """Ask for the deletion of a route, and of no other maker's; False if it, or its link, is missing.

    A path takes the whole route with it.
    """
    if route.is_path:
        route = route._replace(gateway=None, ifindex=0)
    table = number(_RTA_TABLE, route.table)
    gateway = attribute(_RTA_GATEWAY, route.gateway.packed) if route.gateway is not None else b""
    attributes = attribute(_RTA_DST, route.dst.network_address.packed) if route.dst.prefixlen else b""
    attributes += _numbers((_RTA_OIF, route.ifindex), (_RTA_PRIORITY, route.priority)) + gateway + table
    fixed = RTMSG.pack(
        AF_INET if route.dst.version == _IPV4 else AF_INET6,
        route.dst.prefixlen,
        0,
        route.tos,
        route.table if route.table <= RT_TABLE_MAIN else RT_TABLE_COMPAT,
        route.protocol,
        route.scope,
        route.kind,
        0,
    )
    missing = (errno.ESRCH, errno.ENODEV, errno.ENETDOWN, errno.ENETUNREACH)
    return change(message(_RTM_DELROUTE, fixed + attributes), f"delete route to {route.dst}", missing)


def get_routes(family: int, *, table: int | None = RT_TABLE_MAIN, ifindex: int = 0) -> bytes:
    """Ask for the routes of one table (None: of all), or those of them that leave through one link."""
    attributes = _numbers((_RTA_OIF, ifindex), (_RTA_TABLE, table or 0))
    return message(_RTM_GETROUTE, RTMSG.pack(family, *bytes(7), 0) + attributes)


def get_route_to(address: Address) -> bytes:
    """Ask for the route that a packet to `address` takes."""
    family = AF_INET if address.version == _IPV4 else AF_INET6
    fixed = RTMSG.pack(family, address.max_prefixlen, *bytes(6), 0)
    return message(_RTM_GETROUTE, fixed + attribute(_RTA_DST, address.packed))


def _first_route(frames: list[Frame] | None) -> KernelRoute | None:
    return next((route for frame in frames or () for route in routes_in(frame.encoded)), None)


def routes_in(encoded: bytes) -> Iterator[KernelRoute]:
    """Yield the route in an RTM_NEWROUTE message; of a multipath route each of its paths."""
    family, length, _, tos, table, protocol, scope, kind, _ = RTMSG.unpack_from(encoded, HEADER.size)
    found = values(encoded, _BODY)
    metrics = values(found.get(_RTA_METRICS, b""))
    whole = KernelRoute(
        dst=network_of(family, found.get(_RTA_DST), length),
        gateway=_gateway(found),
        ifindex=uint32(found.get(_RTA_OIF)),
        mtu=uint32(metrics.get(_RTAX_MTU)),
        advmss=uint32(metrics.get(_RTAX_ADVMSS)),
        priority=uint32(found.get(_RTA_PRIORITY)),
        table=uint32(found.get(_RTA_TABLE)) or table,
        scope=scope,
        kind=kind,
        protocol=protocol,
        tos=tos,
        is_path=_RTA_MULTIPATH in found or _RTA_NH_ID in found,
    )
    if _RTA_MULTIPATH not in found:
        yield whole
        return
    paths, offset = found[_RTA_MULTIPATH], 0
    while offset + RTNEXTHOP.size <= len(paths):
        size, _, _, ifindex = RTNEXTHOP.unpack_from(paths, offset)
        path = values(paths[offset : offset + size], RTNEXTHOP.size)
        yield whole._replace(gateway=_gateway(path), ifindex=ifindex)
        offset += max(RTNEXTHOP.size, size + 3 & ~3)


def _gateway(attributes: dict[int, bytes]) -> Address | None:
    return address_of(attributes.get(_RTA_GATEWAY) or attributes.get(_RTA_VIA, b"")[2:])


def network_of(family: int, packed: bytes | None, length: int) -> Network:
    """Return the network in an attribute, the family's whole space without one."""
    if family == AF_INET:
        return IPv4Network((packed or bytes(4), length))
    return IPv6Network((packed or bytes(16), length))


def address_of(packed: bytes | None) -> Address | None:
    """Return the address in an attribute, or None without one."""
    if not packed:
        return None
    return IPv4Address(packed) if len(packed) == _IPV4 else IPv6Address(packed)


def _numbers(*attributes: tuple[int, int]) -> bytes:
    return b"".join(number(kind, value) for kind, value in attributes if value)
