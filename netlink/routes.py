"""Routes."""

import errno
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import AF_INET
from typing import NamedTuple

from pyroute2.netlink.rtnl.rtmsg import rtmsg

from netlink import messages
from netlink.codec import Message, decode
from netlink.handle import Handle
from netlink.messages import RT_TABLE_MAIN
from netlink.socket import Frame, NetlinkError

__all__ = ["RT_TABLE_MAIN", "Route", "RouteVerbs"]


class Route(NamedTuple):
    """A route as it was when asked for; of a multipath route there is one for each of its paths."""

    dst: IPv4Network | IPv6Network
    gateway: IPv4Address | IPv6Address | None
    index: int  # type: ignore[assignment]  # hides tuple.index, which has no use here
    """Of the link it leaves through, or 0."""
    mtu: int
    """Bytes; 0 for that of the link. So with `advmss`."""
    advmss: int
    priority: int
    table: int
    scope: int
    """RT_SCOPE_*: 0 universe, 253 link, 254 host."""
    kind: int
    """RTN_*: 1 unicast, 2 local, 3 broadcast, 6 blackhole, 7 unreachable, …"""
    protocol: int
    """RTPROT_*, who made it: 2 the kernel, 3 a program."""


class RouteVerbs(Handle):
    """Routes; each verb raises NetlinkError."""

    def routes(self, family: int, *, table: int | None = RT_TABLE_MAIN, index: int = 0) -> list[Route]:
        """Return the routes of `family` (AF_INET, AF_INET6) in one table, or with None in all, in no certain order.

        With `index`, only those that leave through that link.
        """
        request = messages.get_routes(family, table=table, index=index)
        try:
            frames = self._socket.dump(request, doing="list routes")
        except NetlinkError as error:
            if error.errno == errno.ENOENT:  # nobody has used that table yet
                return []
            raise
        # A multipath route is given whole when one of its paths is asked for.
        return [route for frame in frames for route in _routes(frame) if index in {0, route.index}]

    def add_route(  # noqa: PLR0913 - what can be said of a route, each by its name
        self,
        index: int,
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
            index, dst, gateway=gateway, mtu=mtu, advmss=advmss, priority=priority, table=table, scope=scope
        )
        via = f" via {gateway}" if gateway else ""
        self.execute([request], doing=f"add route to {dst}{via} through link {index}")

    def delete_route(
        self,
        dst: IPv4Network | IPv6Network,
        *,
        index: int = 0,
        gateway: IPv4Address | IPv6Address | None = None,
        priority: int = 0,
        table: int | None = None,
    ) -> bool:
        """Delete the first route to `dst` that fits what is given; False when there was none."""
        request = messages.delete_route(dst, index=index, gateway=gateway, priority=priority, table=table)
        # ENOENT: nothing but IPv6's own entry for what has no route.
        return self._tried(request, errno.ESRCH, errno.ENOENT, errno.ENODEV, doing=f"delete route to {dst}")


def _routes(frame: Frame) -> list[Route]:
    message = decode(rtmsg, frame.encoded)
    paths = message.get_attr("RTA_MULTIPATH")
    if paths is None:
        return [_route(message, message, message.get_attr("RTA_OIF", 0))]
    return [_route(message, path, path["oif"]) for path in paths]


def _route(message: Message, path: Message, index: int) -> Route:
    nowhere = "0.0.0.0" if message["family"] == AF_INET else "::"  # noqa: S104 - a default route's destination
    metrics = message.get_attr("RTA_METRICS")
    gateway = path.get_attr("RTA_GATEWAY")
    return Route(
        dst=ip_network(f"{message.get_attr('RTA_DST', nowhere)}/{message['dst_len']}"),
        gateway=ip_address(gateway) if gateway else None,
        index=index,
        mtu=metrics.get_attr("RTAX_MTU", 0) if metrics else 0,
        advmss=metrics.get_attr("RTAX_ADVMSS", 0) if metrics else 0,
        priority=message.get_attr("RTA_PRIORITY", 0),
        table=message.get_attr("RTA_TABLE", message["table"]),
        scope=message["scope"],
        kind=message["type"],
        protocol=message["proto"],
    )
