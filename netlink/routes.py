"""Routes."""

import errno
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from netlink import messages
from netlink.handle import Handle
from netlink.request import Request, change
from netlink.route_wire import RT_TABLE_MAIN, Route, new_route, routes_in
from netlink.socket import NetlinkError

__all__ = ["RT_TABLE_MAIN", "Route", "RouteVerbs", "add_route", "new_route"]


class RouteVerbs(Handle):
    """Routes; each verb raises NetlinkError."""

    def routes(self, family: int, *, table: int | None = RT_TABLE_MAIN, ifindex: int = 0) -> list[Route]:
        """Return the routes of `family` (AF_INET, AF_INET6) in one table, or with None in all, in no certain order.

        With `ifindex`, only those that leave through that link.
        """
        request = messages.get_routes(family, table=table, ifindex=ifindex)
        try:
            frames = self._socket.dump(request, doing="list routes")
        except NetlinkError as error:
            if error.errno == errno.ENOENT:  # nobody has used that table yet
                return []
            raise
        # A multipath route is given whole when one of its paths is asked for.
        return [route for frame in frames for route in routes_in(frame.encoded) if ifindex in {0, route.ifindex}]

    def add_route(  # noqa: PLR0913 - what can be said of a route, each by its name
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
        """Add a route to `dst` through a link; see `messages.new_route`. Raises NetlinkError: EEXIST for an equal one.

        `mtu` and `advmss` are in bytes, 0 for what the link's own MTU gives; the table is main, the scope universe
        unless given. An IPv6 priority of 0 is 1024.
        """
        request = messages.new_route(
            ifindex, dst, gateway=gateway, mtu=mtu, advmss=advmss, priority=priority, table=table, scope=scope
        )
        self.send(add_route(request))

    def delete_route(
        self,
        dst: IPv4Network | IPv6Network,
        *,
        ifindex: int = 0,
        gateway: IPv4Address | IPv6Address | None = None,
        priority: int = 0,
        table: int | None = None,
    ) -> bool:
        """Delete the first route to `dst` that fits what is given; False when there was none."""
        request = messages.delete_route(dst, ifindex=ifindex, gateway=gateway, priority=priority, table=table)
        # ENOENT: nothing but IPv6's own entry for what has no route.
        return self._tried(request, errno.ESRCH, errno.ENOENT, errno.ENODEV, doing=f"delete route to {dst}")


def add_route(message: bytes) -> Request[bool]:
    """Ask for a route that `messages.new_route` made; an error names its destination, gateway and link."""
    return change(message, partial(_adding, message))


def _adding(message: bytes) -> str:
    route = next(routes_in(message))
    via = f" via {route.gateway}" if route.gateway else ""
    return f"add route to {route.dst}{via} through link {route.ifindex}"
