"""The kernel's side of a plan: its present state, the differences, and the messages that remove them.

Routes are this agent's by their protocol number, entries of neighbours and of the forwarding database by their link. No
others are changed. Messages go in batches: one system call for each message took forty times the processor time.
"""

import errno
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from socket import AF_BRIDGE, AF_INET, AF_INET6
from typing import Any, Final, NamedTuple

from agent.peers import Address, Network, Peer, is_within
from agent.plan import NO_WAYS, TUNNEL, Hop, Interface, Plan, Tunnel, Underlay, Ways
from agent.underlay import ALIAS, UNICAST, find_underlay, is_own_tunnel, on_link, routes_to
from netlink.addresses import add_address, delete_address
from netlink.kinds import vxlan
from netlink.link import Link
from netlink.namespace import Namespace
from netlink.neighbours import (
    NUD_PERMANENT,
    delete_forwarding,
    delete_neighbour,
    list_neighbours,
    set_forwarding,
    set_neighbour,
)
from netlink.request import RtnlRequest, batches, change
from netlink.routes import (
    MAKERS,
    RT_SCOPE_UNIVERSE,
    RT_TABLE_MAIN,
    KernelRoute,
    add_route,
    delete_route,
    new_route,
)
from netlink.rtnl import Rtnl
from netlink.wire import NetlinkError

PROTOCOL: Final = 201
"""RTPROT_*: the maker of the routes. /etc/iproute2/rt_protos.d may name it."""

_PRIORITY: Final = {4: 0, 6: 1024}
"""The priority of a route for which none was given."""
_SCOPE_LINK: Final = 253


class Change(NamedTuple):
    """A difference: `+` is missing, `-` is left over, `~` is there with another value."""

    sign: str
    what: str
    requests: tuple[RtnlRequest[Any], ...]

    def __str__(self) -> str:
        return f"{self.sign} {self.what}"


class Difference(NamedTuple):
    """The changes, in this order, that make the kernel's state that of the plan, and the problems that remain."""

    tunnel: str
    """The sign for the tunnel's link, "" if it is as planned."""
    changes: list[Change]
    problems: list[str]
    is_refused: bool = False
    """Whether the kernel has refused a change."""


class Kernel:
    """The links, routes and neighbours of one network namespace. Not to be shared between threads."""

    def __init__(self, namespace: Namespace | None = None) -> None:
        """Open a socket there, or in the thread's own namespace. Raises OSError."""
        self._rtnl = Rtnl(namespace)
        self._tunnel = 0

    def close(self) -> None:
        """Close the socket."""
        self._rtnl.close()

    @property
    def tunnel(self) -> int:
        """The ifindex of the tunnel's link as `apply` has left it, 0 if there is none."""
        return self._tunnel

    def underlay(self, own: Peer | None, others: Iterable[Address]) -> Underlay:
        """Look up the links of this node's addresses, and those that lead to others. Raises NetlinkError."""
        return find_underlay(self._rtnl, own, others)

    def on_link(self, addresses: Iterable[Address]) -> dict[Address, int]:
        """Return the addresses that need no gateway, each with the ifindex of its link. Raises NetlinkError."""
        return on_link(routes_to(self._rtnl, addresses))

    def difference(self, plan: Plan) -> Difference:
        """Compare the kernel's state with the plan, and change nothing. Raises NetlinkError."""
        link, tunnel = self._rtnl.link(TUNNEL), plan.tunnel
        sign = sign_of_link(link, plan)
        ifindex = link.ifindex if link is not None and not sign else 0
        changes: list[Change] = []
        if tunnel is not None:
            changes += self._tunnel_changes(plan, tunnel, ifindex)
        route_changes, problems = self._route_changes(plan, ifindex)
        return Difference(sign, changes + route_changes, problems)

    def apply(self, plan: Plan) -> Difference:
        """Make the kernel's state that of the plan, and return the differences before. Raises NetlinkError.

        A change that the kernel refuses is a problem, and the others are made.
        """
        tunnel = plan.tunnel
        problems, refusal = [], f"the kernel did not make {TUNNEL}"
        sign = sign_of_link(self._rtnl.link(TUNNEL), plan)
        if sign in {"-", "~"}:
            self._rtnl.delete_link(TUNNEL)
        if sign in {"+", "~"} and tunnel is not None:
            settings = vxlan(tunnel.settings)
            try:
                self._rtnl.create_link("vxlan", TUNNEL, data=settings, mtu=tunnel.mtu, mac=tunnel.mac, up=True)
            except NetlinkError as error:
                refusal = str(error.strerror)
        made = self._rtnl.link(TUNNEL)
        self._tunnel = made.ifindex if made is not None and is_own_tunnel(made, plan.site.node.name) else 0
        if made is not None and self._tunnel and made.alias != ALIAS:
            self._rtnl.set_alias(self._tunnel, ALIAS)
        if tunnel is not None and not self._tunnel:
            problems.append(f"there is no tunnel: {self._tunnels_hindrance(tunnel) or refusal}")
            plan = plan.without_tunnel()
        difference = self.difference(plan)
        refused = self._send(request for each in difference.changes for request in each.requests)
        return Difference(sign, difference.changes, problems + difference.problems + refused, bool(refused))

    def change_ways(self, before: Ways | None, after: Ways | None) -> list[str]:
        """Change the ways to one node without a look at the kernel; return the first refusals in words.

        The tunnel's link has to be there, as `apply` has made it. Raises NetlinkError.
        """
        old, new = before or NO_WAYS, after or NO_WAYS
        tunnel = self._tunnel
        first: list[RtnlRequest[Any]] = []
        last: list[RtnlRequest[Any]] = []
        first += [set_forwarding(tunnel, mac, end) for mac, end in new.ends.items() if old.ends.get(mac) != end]
        for address, mac in new.neighbours.items():
            if old.neighbours.get(address) != mac:
                first.append(set_neighbour(tunnel, address, mac))
        for dst, hop in old.hops.items():
            if new.hops.get(dst) != hop:
                first.append(delete_route(_own_route(dst, hop, hop.ifindex or tunnel)))
        for dst, hop in new.hops.items():
            if old.hops.get(dst) != hop:
                first.append(add_route(_route_to(dst, hop, hop.ifindex or tunnel)))
        last += [delete_neighbour(tunnel, each) for each in old.neighbours if each not in new.neighbours]
        last += [delete_forwarding(tunnel, mac, end) for mac, end in old.ends.items() if mac not in new.ends]
        return self._send(first + last)

    def _tunnels_hindrance(self, tunnel: Tunnel) -> str:
        """Name the link that keeps the tunnel's from being made; "" if there is none."""
        wanted = tunnel.settings
        for link in self._rtnl.links():
            if link.name == TUNNEL:
                return f"{TUNNEL} is another program's link, of kind {link.kind or 'hardware'}"
            other = link.details.vxlan
            if other is not None and (other.vni, other.port) == (wanted.vni, wanted.port):
                return f"{link.name} has VNI {other.vni} and port {other.port}, which it needs"
        return ""

    def _tunnel_changes(self, plan: Plan, tunnel: Tunnel, ifindex: int) -> Iterator[Change]:
        """Yield the changes of the addresses, the forwarding database and the neighbours of the tunnel's link."""
        addresses = {each.interface for each in self._rtnl.addresses(ifindex) if each.scope != _SCOPE_LINK}
        addresses = addresses if ifindex else set()
        for interface in tunnel.addresses:
            if interface not in addresses:
                yield Change("+", f"address {interface} dev {TUNNEL}", (add_address(ifindex, interface, nodad=True),))
        for left in addresses - set(tunnel.addresses):
            yield Change("-", f"address {left} dev {TUNNEL}", (_delete_address(ifindex, left),))
        yield from self._forwarding_changes(plan, ifindex)
        yield from self._neighbour_changes(plan, ifindex)

    def _forwarding_changes(self, plan: Plan, ifindex: int) -> Iterator[Change]:
        listed = list_neighbours(self._rtnl, AF_BRIDGE, ifindex=ifindex) if ifindex else []
        known = {(each.lladdr, each.dst) for each in listed if each.dst is not None}
        macs = {mac for mac, _ in known}
        ends = {mac: end for each in plan.ways.values() for mac, end in each.ends.items()}
        for mac, end in ends.items():
            if (mac, end) not in known:
                sign = "~" if mac in macs else "+"
                yield Change(sign, f"fdb {mac} dev {TUNNEL} dst {end}", (set_forwarding(ifindex, mac, end),))
        # The address of zeros, and that of a group, may have several ends. The agent gives them none.
        for mac, left in known:
            if mac not in ends:
                yield Change("-", f"fdb {mac} dev {TUNNEL} dst {left}", (delete_forwarding(ifindex, mac, left),))

    def _neighbour_changes(self, plan: Plan, ifindex: int) -> Iterator[Change]:
        listed = list_neighbours(self._rtnl, 0, ifindex=ifindex) if ifindex else []
        macs = {each.dst: each.lladdr for each in listed if each.state & NUD_PERMANENT and each.dst is not None}
        for address, mac in (item for each in plan.ways.values() for item in each.neighbours.items()):
            if (known := macs.pop(address, None)) != mac:
                sign = "+" if known is None else "~"
                yield Change(sign, f"neighbour {address} dev {TUNNEL} {mac}", (set_neighbour(ifindex, address, mac),))
        for address, mac in macs.items():
            yield Change("-", f"neighbour {address} dev {TUNNEL} {mac}", (delete_neighbour(ifindex, address),))

    def _route_changes(self, plan: Plan, tunnel: int) -> tuple[list[Change], list[str]]:
        """Return the changes of routes, deletions first, and the routes of others that are in the way."""
        present: dict[Network, list[KernelRoute]] = {}
        foreign: list[KernelRoute] = []
        for route in (*self._rtnl.routes(AF_INET, table=None), *self._rtnl.routes(AF_INET6, table=None)):
            if route.protocol == PROTOCOL:
                whole = route._replace(gateway=None, ifindex=0) if route.is_path else route
                if whole not in (of_dst := present.setdefault(route.dst, [])):
                    of_dst.append(whole)
            elif route.table == RT_TABLE_MAIN:
                foreign.append(route)
        hops = {dst: hop for each in plan.ways.values() for dst, hop in each.hops.items()}
        problems, blocked = _in_the_way(foreign, hops)
        gone: list[Change] = []
        new: list[Change] = []
        for dst, hop in hops.items():
            ifindex = hop.ifindex or tunnel
            routes = present.pop(dst, [])
            others = [each for each in routes if not is_as_planned(each, hop, ifindex)]
            via = f"route {dst} via {hop.gateway}"
            if len(others) < len(routes):  # as planned; another one may be beside it
                gone += [Change("-", _described(each), (delete_route(each),)) for each in others]
            elif dst not in blocked:
                added = add_route(_route_to(dst, hop, ifindex))
                new.append(Change("~" if others else "+", via, (*map(delete_route, others), added)))
        gone += [Change("-", _described(each), (delete_route(each),)) for routes in present.values() for each in routes]
        return gone + new, problems

    def _send(self, requests: Iterable[RtnlRequest[Any]]) -> list[str]:
        """Send requests in batches; return the first refusal of each batch in words."""
        refused = []
        for batch in batches(requests):
            try:
                self._rtnl.send(*batch)
            except NetlinkError as error:
                refused.append(str(error.strerror))
        return refused


def sign_of_link(link: Link | None, plan: Plan) -> str:
    """Compare the tunnel's link with the plan: `+`, `-`, `~` as of `Change`, or "" if it is as planned.

    A link of that name with another number, port or kind, or without the agent's marks, is another program's.
    """
    tunnel = plan.tunnel
    own = link if link is not None and is_own_tunnel(link, plan.site.node.name) else None
    if own is None:
        return "" if tunnel is None else "+"
    if tunnel is None:
        return "-"
    is_same = (own.details.vxlan, own.mtu, own.mac, own.up) == (tunnel.settings, tunnel.mtu, tunnel.mac, True)
    return "" if is_same else "~"


def is_as_planned(route: KernelRoute, hop: Hop, ifindex: int) -> bool:
    """Tell whether one of the agent's routes is as it makes them; `ifindex` is that of the hop's link."""
    return route == _own_route(route.dst, hop, ifindex)


def _route_to(dst: Network, hop: Hop, ifindex: int) -> bytes:
    return new_route(ifindex, dst, gateway=hop.gateway, protocol=PROTOCOL, onlink=not hop.ifindex, exclusive=True)


def _own_route(dst: Network, hop: Hop, ifindex: int) -> KernelRoute:
    priority = _PRIORITY[dst.version]
    return KernelRoute(dst, hop.gateway, ifindex, 0, 0, priority, RT_TABLE_MAIN, RT_SCOPE_UNIVERSE, UNICAST, PROTOCOL)


def _in_the_way(foreign: Sequence[KernelRoute], hops: Mapping[Network, Hop]) -> tuple[list[str], set[Network]]:
    """Return the routes of others that take traffic from planned ones, in words, and the ranges with an equal one."""
    planned = {version: sorted(each for each in hops if each.version == version) for version in (4, 6)}
    problems, blocked = [], set()
    for route in foreign:
        ranges = planned[route.dst.version]
        at = bisect_right(ranges, route.dst) - 1
        if at < 0 or not is_within(route.dst, ranges[at]):
            continue
        wanted = ranges[at]
        if route.dst == wanted:
            if route.priority > _PRIORITY[wanted.version]:
                continue
            if route.priority == _PRIORITY[wanted.version] and not route.tos:
                blocked.add(wanted)
        problems.append(f"{_described(route)} takes packets from the route to {wanted}")
    return problems, blocked


def _described(route: KernelRoute) -> str:
    via = f" via {route.gateway}" if route.gateway is not None else ""
    maker = "" if route.protocol == PROTOCOL else f" of {MAKERS.get(route.protocol, route.protocol)}"
    return f"route {route.dst}{via}{maker}"


def _delete_address(ifindex: int, interface: Interface) -> RtnlRequest[bool]:
    missing = (errno.EADDRNOTAVAIL, errno.ENODEV)
    return change(delete_address(ifindex, interface), f"delete address {interface} of {TUNNEL}", missing)
