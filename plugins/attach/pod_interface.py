"""The pod's end of an attachment: addresses, routes, and the checks of them.

The sequence calls these functions, for every interface plugin alike.
"""

from _socket import AF_INET, AF_INET6
from contextlib import AbstractContextManager, suppress

from fast_stdlib.typing import Callable, Iterable, Sequence
from netlink.addresses import add_address
from netlink.kinds import PAIRS
from netlink.link import Link, find_link
from netlink.links import notify_by_arp, set_up
from netlink.namespace import Namespace, entered
from netlink.request import ANY, RtnlRequest, change
from netlink.routes import RT_TABLE_MAIN, KernelRoute, add_route, new_route
from netlink.rtnl import Rtnl
from netlink.sysctl import set_sysctl, write_sysctl
from plugins.attach.gateways import DEFAULT_NETWORKS, gateway_of
from skel import Address, Cidr, CniError, Code, Interface, Network, Result, Route

_IPV6 = 6

_DAD_SECONDS = 5.0
FAMILIES = {4: AF_INET, 6: AF_INET6}


def require_interface(pod: Rtnl, ifname: str) -> Link:
    """Return the pod's interface. Raises CniError (999) if it is missing."""
    found = find_link(ifname)
    pod.send(found)
    return _found(found, ifname)


def opened(namespace: Namespace, ifname: str, result: Result, *, dad: bool) -> Rtnl:
    """Return the links of the pod's namespace, after setting the kernel parameters for the addresses of `result`.

    Raises OSError.
    """
    # Both in one visit of the namespace: a visit is two system calls and a file.
    with entered(namespace):
        if result.ips:
            _set_parameters(ifname, ipv6=_has_ipv6(result), dad=dad)
        return Rtnl()


def configure(  # noqa: PLR0913 -- the facts of the sequence, each by its name
    pod: Rtnl,
    index: int,
    ifname: str,
    result: Result,
    *,
    dad: bool,
    own_routes: Sequence[RtnlRequest[bool]] = (),
    wait_reachable: Callable[[], object],
    waiting: Callable[[], AbstractContextManager[None]],
) -> Link:
    """Give the pod's interface the addresses and routes of `result` and bring it up; return it.

    `own_routes` come first, and the kernel then adds no route to the network of an address.

    `dad` turns IPv6 duplicate address detection on, which takes 0.2 s. It begins after `wait_reachable`, which returns
    when neighbours hear the interface. A signal may end both waits, in `waiting` (see skel.Interruption).

    Raises CniError: 11 if the detection does not end in time, 7 for a route that mixes families. Raises NetlinkError,
    and OSError for a duplicate.
    """
    routes = [*own_routes, *_routes_to_add(index, result)]
    addresses = [add_address(index, ip.address, nodad=not dad, noprefixroute=bool(own_routes)) for ip in result.ips]
    up = set_up(index)
    found = find_link(ifname)
    # The kernel sends no gratuitous ARP without it. No address depends on it, so a refusal does no harm.
    notify = [change(notify_by_arp(index), "set arp_notify", ANY)] if result.ips else []
    if not (dad and result.ips):
        pod.send(*notify, *addresses, up, *routes, found)
        return _found(found, ifname)
    # The kernel sends one DAD probe, as soon as the interface is up. A port that does not forward yet would drop it.
    # IPv4 addresses have none, and those that are there when the interface comes up are announced.
    probed = [add for ip, add in zip(result.ips, addresses, strict=True) if ip.address.version == _IPV6]
    pod.send(*notify, *(add for add in addresses if add not in probed), up)
    with waiting():
        wait_reachable()
    pod.send(*probed, up)
    with waiting():
        settled = not _has_ipv6(result) or pod.wait_addresses_settled(index, _DAD_SECONDS)
    if not settled:
        message = f'duplicate address detection on "{ifname}" did not end in {_DAD_SECONDS} s'
        raise CniError(Code.TRY_AGAIN_LATER, message)
    pod.send(*routes, found)
    return _found(found, ifname)


def announce(pod: Rtnl, inner: Link) -> None:
    """Tell the neighbours the MAC of the pod's addresses, so that a reused address works at once.

    The kernel sends gratuitous ARP (arp_notify) and unsolicited neighbour advertisements (ndisc_notify) when a MAC is
    set, even to the same value. Raises NetlinkError.
    """
    pod.set_mac(inner.ifindex, inner.mac)


def check_interface(pod: Rtnl, result: Result, ifname: str, netns: str, *, kind: str | None, may_be_down: bool) -> Link:
    """Return the pod's interface. Raises CniError: 7 if `result` lacks it, 999 if it is missing, or differs.

    `kind` is None if any will do.
    """
    expected = [interface for interface in result.interfaces if (interface.name, interface.sandbox) == (ifname, netns)]
    if not expected:
        raise CniError(Code.INVALID_CONFIG, f'prevResult.interfaces: no "{ifname}" in the sandbox "{netns}"')
    inner = require_interface(pod, ifname)
    # A plugin may have made a pair of either kind.
    if kind is not None and inner.kind != kind and not {inner.kind, kind} <= PAIRS:
        raise CniError(Code.INTERNAL, f'interface "{ifname}" in the container is no {kind} but "{inner.kind}"')
    if not (inner.up or may_be_down):
        raise CniError(Code.INTERNAL, f'interface "{ifname}" in the container is down')
    check_mac(expected[0], inner)
    return inner


def check_mac(expected: Interface, found: Link) -> None:
    """Raise CniError (999) if a link has another MAC than the result says."""
    if expected.mac and expected.mac.lower() != found.mac:
        raise CniError(Code.INTERNAL, f'MAC of "{found.name}" is {found.mac}, prevResult says {expected.mac}')


def check_addresses_and_routes(
    pod: Rtnl, inner: Link, routes: Iterable[Route], addresses: Iterable[Cidr], table: int = RT_TABLE_MAIN
) -> None:
    """Raise CniError (999) for an address or a route that the pod lacks (SPEC.md section 2, CHECK).

    A route that names no table is in `table`, or leaves by `inner` in another one.
    """
    present = {address.interface for address in pod.addresses(inner.ifindex)}
    for address in addresses:
        if address not in present:
            raise CniError(Code.INTERNAL, f'address {address} is missing on "{inner.name}" in the container')
    tables: dict[tuple[int, int | None], dict[Network, list[KernelRoute]]] = {}

    def is_present(wanted: Route, number: int | None) -> bool:
        place = (FAMILIES[wanted.dst.version], number)
        if place not in tables:
            tables[place] = _routes(pod, *place)
        found = [route for route in tables[place].get(wanted.dst, []) if _fulfils(route, wanted)]
        return any(number is not None or route.ifindex == inner.ifindex for route in found)

    for wanted in routes:
        # A later plugin of the list (sbr, vrf) may have moved the interface's routes to another table.
        places = [table, None] if wanted.table is None else [wanted.table]
        if not any(is_present(wanted, number) for number in places):
            via = f" via {wanted.gw}" if wanted.gw else ""
            raise CniError(Code.INTERNAL, f"route to {wanted.dst}{via} is missing in the container")


def _found(request: RtnlRequest[Link | None], ifname: str) -> Link:
    if request.answer is None:
        raise CniError(Code.INTERNAL, f'interface "{ifname}" is missing in the container')
    return request.answer


def _has_ipv6(result: Result) -> bool:
    return any(ip.address.version == _IPV6 for ip in result.ips)


def _routes_to_add(index: int, result: Result) -> list[RtnlRequest[bool]]:
    """Return the requests for all routes of `result`. Raises CniError (7)."""
    requests = []
    for route in result.routes:
        gateway = route.gw or gateway_of(result, route.dst.version)
        if gateway is not None and gateway.version != route.dst.version:
            raise CniError(Code.INVALID_CONFIG, f"route to {route.dst}: {gateway} is no gateway of its family")
        requests.append(add_route(encoded_route(index, route, gateway)))
    return requests


def encoded_route(index: int, route: Route, gateway: Address | None) -> bytes:
    """Return the kernel's message for a route of a result through a link, by way of `gateway` if there is one."""
    return new_route(
        index,
        route.dst,
        gateway=gateway,
        mtu=route.mtu,
        advmss=route.advmss,
        priority=route.priority,
        table=route.table,
        scope=route.scope,
    )


def _routes(pod: Rtnl, family: int, table: int | None) -> dict[Network, list[KernelRoute]]:
    """Return the routes of one table, or with None of all, by their destinations."""
    found: dict[Network, list[KernelRoute]] = {}
    for route in pod.routes(family, table=table):
        found.setdefault(route.dst, []).append(route)
    return found


def _fulfils(route: KernelRoute, wanted: Route) -> bool:
    # A later plugin may have changed the default route: the reference accepts that, too.
    is_default = wanted.dst == DEFAULT_NETWORKS[wanted.dst.version]
    # The kernel, and DHCP servers, understand 0.0.0.0 as no gateway.
    return is_default or wanted.gw in {None, route.gateway} or wanted.gw.is_unspecified


def _set_parameters(ifname: str, *, ipv6: bool, dad: bool) -> None:
    """Set the kernel parameters of an interface before it gets addresses and comes up."""
    # Also for a pod without IPv6 addresses: its link-local address is usable at once.
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
    """Set a parameter if possible: an old kernel lacks some, /proc/sys may be read-only, and pods work without it."""
    with suppress(OSError):
        set_sysctl(key, value)
