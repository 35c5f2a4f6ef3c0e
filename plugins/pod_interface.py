"""The pod's end of an attachment: addresses, routes, and the checks of them.

Every interface plugin configures its interface by this one sequence, from the
result that the IPAM plugin began.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from socket import AF_INET, AF_INET6

from netlink.messages import new_route
from netlink.namespace import Namespace, entered
from netlink.rtnl import RT_TABLE_MAIN, Link, NetlinkError, Rtnl
from netlink.rtnl import Route as KernelRoute
from netlink.sysctl import write_sysctl
from skel import Cidr, CniError, Code, Network, Result, Route

from .gateways import default_network, gateway_of

__all__ = [
    "announce",
    "check_addresses_and_routes",
    "configure",
    "require_interface",
]

_IPV6 = 6

_DAD_SECONDS = 5.0
_FAMILIES = {4: AF_INET, 6: AF_INET6}


def require_interface(pod: Rtnl, ifname: str) -> Link:
    """Return the pod's interface. Raises CniError (999) where it is missing."""
    link = pod.link(ifname)
    if link is None:
        raise CniError(Code.INTERNAL, f'interface "{ifname}" is missing in the container')
    return link


def configure(
    pod: Rtnl,
    namespace: Namespace,
    inner: Link,
    result: Result,
    *,
    dad: bool,
    wait_reachable: Callable[[], object],
    waiting: Callable[[], AbstractContextManager[None]],
) -> None:
    """Give the pod's interface the addresses and routes of `result` and bring it up.

    `dad` turns IPv6 duplicate address detection on; it takes a fifth of a
    second then, after `wait_reachable`, which is to return once neighbours are
    heard through the interface that is up. A signal may end what is done in
    `waiting` (see skel.Interruption). Raises CniError (11 where that does not end, 7 for a route that
    mixes families), NetlinkError, and OSError for a kernel parameter or a duplicate.
    """
    has_ipv6 = any(ip.address.version == _IPV6 for ip in result.ips)
    with entered(namespace):
        _set_parameters(inner.name, ipv6=has_ipv6, dad=dad)
    if dad:
        # The kernel asks once, as soon as it may: what the other end does not let through yet is a question unanswered.
        pod.set_up(inner.index)
        with waiting():
            wait_reachable()
    for ip in result.ips:
        pod.add_address(inner.index, ip.address, nodad=not dad)
    pod.set_up(inner.index)
    with waiting():
        settled = not (has_ipv6 and dad) or pod.wait_addresses_settled(inner.index, _DAD_SECONDS)
    if not settled:
        message = f'duplicate address detection on "{inner.name}" did not end in {_DAD_SECONDS} s'
        raise CniError(Code.TRY_AGAIN_LATER, message)
    _add_routes(pod, inner, result)


def announce(pod: Rtnl, inner: Link) -> None:
    """Tell the neighbours who has the pod's addresses now, so that a reused address works at once.

    The kernel sends gratuitous ARP (arp_notify) and unsolicited neighbour
    advertisements (ndisc_notify) when a MAC is set, even to what it was. Raises NetlinkError.
    """
    pod.set_mac(inner.index, inner.mac)


def check_addresses_and_routes(pod: Rtnl, inner: Link, routes: Iterable[Route], addresses: Iterable[Cidr]) -> None:
    """Raise CniError (999) for an address or a route that the kernel does not have (SPEC.md section 2, CHECK)."""
    present = {address.interface for address in pod.addresses(inner.index)}
    for address in addresses:
        if address not in present:
            raise CniError(Code.INTERNAL, f'address {address} is missing on "{inner.name}" in the container')
    tables: dict[tuple[int, int], dict[Network, list[KernelRoute]]] = {}
    for wanted in routes:
        place = (_FAMILIES[wanted.dst.version], RT_TABLE_MAIN if wanted.table is None else wanted.table)
        if place not in tables:
            tables[place] = _routes(pod, *place)
        if not any(_fulfils(route, wanted) for route in tables[place].get(wanted.dst, [])):
            via = f" via {wanted.gw}" if wanted.gw else ""
            raise CniError(Code.INTERNAL, f"route to {wanted.dst}{via} is missing in the container")


def _add_routes(pod: Rtnl, inner: Link, result: Result) -> None:
    """Add all routes of `result` by one system call. Raises CniError (7), and NetlinkError that names the route."""
    requests, doing = [], []
    for route in result.routes:
        gateway = route.gw or gateway_of(result, route.dst.version)
        if gateway is not None and gateway.version != route.dst.version:
            raise CniError(Code.INVALID_CONFIG, f"route to {route.dst}: {gateway} is no gateway of its family")
        requests.append(
            new_route(
                inner.index,
                route.dst,
                gateway=gateway,
                mtu=route.mtu,
                advmss=route.advmss,
                priority=route.priority,
                table=route.table,
                scope=route.scope,
            )
        )
        doing.append((route.dst, gateway))
    for (dst, gateway), failure in zip(doing, pod.outcomes(requests), strict=True):
        if failure is not None:
            via = f" via {gateway}" if gateway else ""
            raise NetlinkError(failure.errno, f"add route to {dst}{via} through link {inner.index}: {failure.strerror}")


def _routes(pod: Rtnl, family: int, table: int) -> dict[Network, list[KernelRoute]]:
    """Return the routes of one table by their destinations."""
    found: dict[Network, list[KernelRoute]] = {}
    for route in pod.routes(family, table=table):
        found.setdefault(route.dst, []).append(route)
    return found


def _fulfils(route: KernelRoute, wanted: Route) -> bool:
    # A default route may have been pointed elsewhere by a later plugin: the reference accepts that, too.
    is_default = wanted.dst == default_network(wanted.dst.version)
    return is_default or wanted.gw in {None, route.gateway}


def _set_parameters(ifname: str, *, ipv6: bool, dad: bool) -> None:
    """Set the kernel parameters of an interface before it gets addresses and comes up."""
    _refine(f"net/ipv4/conf/{ifname}/arp_notify", "1")
    # Also for a pod without IPv6 addresses: its link-local one is of use at once.
    _refine(f"net/ipv6/conf/{ifname}/accept_dad", "1" if dad else "0")
    if not ipv6:
        return
    for name in ("lo", ifname):
        write_sysctl(f"net/ipv6/conf/{name}/disable_ipv6", "0")
    _refine(f"net/ipv6/conf/{ifname}/keep_addr_on_down", "1")
    _refine(f"net/ipv6/conf/{ifname}/ndisc_notify", "1")
    if dad:
        # One probe without the random delay: a pod's start must not wait for seconds.
        _refine(f"net/ipv6/conf/{ifname}/router_solicitation_delay", "0")
        _refine(f"net/ipv6/neigh/{ifname}/retrans_time_ms", "200")
        _refine(f"net/ipv6/conf/{ifname}/enhanced_dad", "1")


def _refine(key: str, value: str) -> None:
    """Set a parameter that a pod's network works without: an old kernel lacks some, and /proc/sys may be read-only."""
    with suppress(OSError):
        write_sysctl(key, value)
