"""The largest packet that a namespace can send on its way out, and the share of it that a tunnel takes."""

from _socket import AF_INET, AF_INET6

from fast_stdlib.typing import Final, NamedTuple
from netlink.rtnl import Rtnl

OVERHEADS: Final = {"vxlan": (50, 70), "geneve": (50, 70), "wireguard": (60, 80), "ipip": (20, 20)}
"""Bytes that an encapsulation adds to a packet, over IPv4 and over IPv6; Geneve's without options."""

_RTN_UNICAST = 1


class PathMtu(NamedTuple):
    """An MTU, less the overhead of a tunnel."""

    mtu: int
    """Bytes."""
    ifname: str
    """The link that sets it."""
    overhead: int
    """Bytes, taken off already."""

    @property
    def reason(self) -> str:
        """The source of the figure, for a message."""
        less = f", less {self.overhead}" if self.overhead else ""
        return f'{self.mtu + self.overhead} of "{self.ifname}"{less}'


def path_mtu(rtnl: Rtnl, overhead: int | str = 0) -> PathMtu | None:
    """Return the MTU of the preferred default route, of the smaller one if both families have one; None without any.

    A default route has the MTU of its link, or its own if that is smaller. `overhead` is in bytes, or one of
    OVERHEADS. Raises NetlinkError.
    """
    found = []
    for family in (AF_INET, AF_INET6):
        routes = [route for route in rtnl.routes(family) if not route.dst.prefixlen and route.kind == _RTN_UNICAST]
        best = min((route.priority for route in routes), default=0)
        for route in routes:
            link = rtnl.link(route.ifindex) if route.priority == best else None
            if link is not None:
                mtu = min(link.mtu, route.mtu or link.mtu)
                found.append(_less(mtu, link.name, overhead, over_ipv6=family == AF_INET6))
    return min(found, default=None)


def link_mtu(mtu: int, ifname: str, overhead: int | str = 0) -> PathMtu:
    """Return a link's MTU less the overhead, with a named one over IPv4."""
    return _less(mtu, ifname, overhead, over_ipv6=False)


def _less(mtu: int, ifname: str, overhead: int | str, *, over_ipv6: bool) -> PathMtu:
    taken = OVERHEADS[overhead][over_ipv6] if isinstance(overhead, str) else overhead
    return PathMtu(mtu - taken, ifname, taken)
