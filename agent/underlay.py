"""The links and routes under the tunnel: those that lead from this node to the addresses of others."""

from collections.abc import Iterable, Mapping
from socket import AF_INET, AF_INET6
from typing import Final

from agent.peers import Address, Network, Peer, tunnel_mac
from agent.plan import PORT, TUNNEL, VNI, Underlay
from netlink.kinds import VXLAN_OVERHEAD
from netlink.link import Link
from netlink.request import batches
from netlink.routes import KernelRoute, find_route_to
from netlink.rtnl import Rtnl

UNICAST: Final = 1
"""RTN_*: a route that leads through a link."""
ALIAS: Final = "tunnel of cni-harness agent"
"""Of the tunnel's link, see ip-link(8)."""
_DOWN: Final = {"DOWN", "LOWERLAYERDOWN", "NOTPRESENT"}
_LO: Final = 1
"""The ifindex of lo in every namespace."""
_ETHERNET: Final = 1500
"""Bytes of Ethernet's MTU."""


def find_underlay(rtnl: Rtnl, node: Peer | None, others: Iterable[Address]) -> Underlay:
    """Look up the links of this node's addresses, and those that lead to others. Raises NetlinkError."""
    wanted, links = (
        set(node.addresses.values() if node is not None else ()),
        {each.ifindex: each for each in rtnl.links()},
    )
    routes = routes_to(rtnl, others)
    found: dict[Address, Link] = {}
    down: dict[Network, Link] = {}
    for each in rtnl.addresses(0):
        link, address = links.get(each.ifindex), each.interface.ip
        if link is None or address not in wanted:
            continue
        if link.ifindex == _LO or link.kind == "dummy":
            found.setdefault(address, _way_out(rtnl, link, links, routes.values()))
        else:
            found[address] = link
            if not link.up or link.oper_state in _DOWN:
                down[each.interface.network] = link
    named = (each for each in links.values() if each.name == TUNNEL)
    tunnel = next((each for each in named if node is not None and is_own_tunnel(each, node.name)), None)
    end = tunnel.details.vxlan.local if tunnel is not None and tunnel.details.vxlan is not None else None
    if tunnel is not None and end in wanted - found.keys():
        found[end] = tunnel._replace(mtu=tunnel.mtu + VXLAN_OVERHEAD[end.version])
    return Underlay(found, on_link(routes), down)


def is_own_tunnel(link: Link, node: str) -> bool:
    """Tell whether a link named as the tunnel's is that of the node's agent, though its end or MTU may have changed.

    It has the alias, unless the agent was killed before it gave it, and the hardware address from its making.
    """
    settings = link.details.vxlan
    is_like_it = settings is not None and (settings.vni, settings.port, settings.learning) == (VNI, PORT, False)
    return is_like_it and (link.alias == ALIAS or link.mac == tunnel_mac(node))


def routes_to(rtnl: Rtnl, addresses: Iterable[Address]) -> dict[Address, KernelRoute]:
    """Look up the routes to addresses of others; one without a route is missing. Raises NetlinkError."""
    asked = {address: find_route_to(address) for address in addresses}
    for requests in batches(asked.values()):
        rtnl.send(*requests)
    routes = ((address, request.answer) for address, request in asked.items())
    return {address: route for address, route in routes if route is not None and route.kind == UNICAST}


def on_link(routes: Mapping[Address, KernelRoute]) -> dict[Address, int]:
    """Return the addresses that need no gateway, each with the ifindex of its link."""
    return {address: route.ifindex for address, route in routes.items() if route.gateway is None}


def _way_out(rtnl: Rtnl, link: Link, links: Mapping[int, Link], routes: Iterable[KernelRoute]) -> Link:
    """Return the link that packets leave by, for an address on `link`, which sends none, as on routers with BGP.

    Of several it is the one with the smallest MTU. Without a route the MTU is at most that of Ethernet.
    """
    ways = {each.ifindex for each in routes}
    if not ways:
        of_both = (*rtnl.routes(AF_INET), *rtnl.routes(AF_INET6))
        ways = {each.ifindex for each in of_both if not each.dst.prefixlen and each.kind == UNICAST}
    alone = link._replace(mtu=min(link.mtu, _ETHERNET))
    return min((links[each] for each in ways & links.keys()), key=lambda each: each.mtu, default=alone)
