"""Copies of a link's routes: written again with all their parts, to the same table or another one.

The kernel's description of a route is also a request for an equal one, but for a few attributes. So a copy keeps what
`KernelRoute` does not show: metrics, preferred source, several paths, next-hop objects
(include/uapi/linux/rtnetlink.h).
"""

import errno
from _socket import AF_INET, AF_INET6

from fast_stdlib.functools import partial
from fast_stdlib.typing import NamedTuple
from netlink.request import RtnlRequest, RtnlSocket, change
from netlink.routes import (
    RT_TABLE_COMPAT,
    RT_TABLE_MAIN,
    RTM_NEWROUTE,
    RTMSG,
    RTNEXTHOP,
    Address,
    KernelRoute,
    address_of,
    get_routes,
    routes_in,
)
from netlink.wire import HEADER, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, attribute, items, message, number, values

_RTM_DELROUTE = 25
_RTN_UNICAST = 1
_RTNH_F_ONLINK = 4
_RTA_OIF, _RTA_GATEWAY, _RTA_PREFSRC, _RTA_MULTIPATH, _RTA_CACHEINFO = 4, 5, 7, 9, 12
_RTA_TABLE, _RTA_VIA, _RTA_ENCAP_TYPE, _RTA_ENCAP, _RTA_NH_ID = 15, 18, 21, 22, 30
_SAID_BY_NEXT_HOP = frozenset({_RTA_OIF, _RTA_GATEWAY, _RTA_MULTIPATH, _RTA_VIA, _RTA_ENCAP_TYPE, _RTA_ENCAP})
_BODY = HEADER.size + RTMSG.size


class RouteCopy(NamedTuple):
    """A unicast route, with the kernel's description of it."""

    route: KernelRoute
    """Of a multipath route its first path."""
    source: Address | None
    """The source address of packets that have none yet, if the route names one."""
    description: bytes
    """An RTM_NEWROUTE message."""

    def add(
        self, table: int | None = None, *, source: Address | None = None, replace: bool = False
    ) -> RtnlRequest[bool]:
        """Ask for a route like this one in `table`, or in the same one; False if an equal one is there.

        `source` replaces the source address. `replace`: of a route with the same destination and priority, too.
        """
        how = NLM_F_REPLACE if replace else NLM_F_EXCL
        encoded = self.written(RTM_NEWROUTE, NLM_F_CREATE | how, self.route.table if table is None else table, source)
        return change(encoded, partial(self._doing, "add", table), (errno.EEXIST,))

    def delete(self) -> RtnlRequest[bool]:
        """Ask for the route's deletion; False if it, or its link, is missing."""
        missing = (errno.ESRCH, errno.ENODEV, errno.ENETDOWN, errno.ENETUNREACH)
        encoded = self.written(_RTM_DELROUTE, 0, self.route.table, None)
        return change(encoded, partial(self._doing, "delete", None), missing)

    def written(self, kind: int, nlm_flags: int, table: int, source: Address | None) -> bytes:
        """Return a message of type `kind` about the route in `table`."""
        family, length, from_length, tos, _, protocol, scope, type_, flags = RTMSG.unpack_from(
            self.description, HEADER.size
        )
        found = list(items(self.description, _BODY))
        # The table follows; the kernel refuses a next hop beside the object that says it.
        dropped = {_RTA_TABLE, _RTA_CACHEINFO} | ({_RTA_PREFSRC} if source is not None else set())
        if any(kind == _RTA_NH_ID for kind, _ in found):
            dropped |= _SAID_BY_NEXT_HOP
        fixed = RTMSG.pack(
            family,
            length,
            from_length,
            tos,
            table if table <= RT_TABLE_MAIN else RT_TABLE_COMPAT,
            protocol,
            scope,
            type_,
            flags & _RTNH_F_ONLINK,
        )
        parts = [
            attribute(kind, _paths(content) if kind == _RTA_MULTIPATH else content)
            for kind, content in found
            if kind not in dropped
        ]
        if source is not None:
            parts.append(attribute(_RTA_PREFSRC, source.packed))
        return message(kind, fixed + b"".join(parts) + number(_RTA_TABLE, table), nlm_flags)

    def _doing(self, verb: str, table: int | None) -> str:
        route = self.route
        via = f" via {route.gateway}" if route.gateway else ""
        return f"{verb} route to {route.dst}{via} in table {route.table if table is None else table}"


def copy_routes(rtnl: RtnlSocket, ifindex: int, table: int | None = RT_TABLE_MAIN) -> list[RouteCopy]:
    """Return the unicast routes that leave through one link alone, in one table or with None in all.

    Those that make the gateways of others reachable come first. Raises NetlinkError.
    """
    found = []
    for family in (AF_INET, AF_INET6):
        request = get_routes(family, table=table, ifindex=ifindex)
        try:
            frames = rtnl.dump(request, doing="list routes")
        except OSError as error:
            if error.errno == errno.ENOENT:  # the table is unused yet
                continue
            raise
        for frame in frames:
            paths = list(routes_in(frame.encoded))
            if all((path.ifindex, path.kind) == (ifindex, _RTN_UNICAST) for path in paths):
                found.append(route_copy(frame.encoded))
    return sorted(found, key=lambda copy: copy.route.gateway is not None)


def route_copy(description: bytes) -> RouteCopy:
    """Return the route in an RTM_NEWROUTE message: the kernel's, or one of `new_route`."""
    route = next(routes_in(description))
    return RouteCopy(route, address_of(values(description, _BODY).get(_RTA_PREFSRC)), description)


def _paths(content: bytes) -> bytes:
    """Return the paths of a multipath route without the flags that only describe them."""
    paths, offset = bytearray(content), 0
    while offset + RTNEXTHOP.size <= len(paths):
        size, flags, hops, ifindex = RTNEXTHOP.unpack_from(paths, offset)
        RTNEXTHOP.pack_into(paths, offset, size, flags & _RTNH_F_ONLINK, hops, ifindex)
        offset += max(RTNEXTHOP.size, size + 3 & ~3)
    return bytes(paths)
