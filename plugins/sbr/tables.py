"""The routing tables and rules of an interface's addresses."""

from ipaddress import IPv6Network

from fast_stdlib.typing import Iterable
from netlink.link import Link
from netlink.route_copies import RouteCopy, copy_routes, route_copy
from netlink.routes import RT_TABLE_MAIN, add_route, new_route
from netlink.rtnl import Rtnl
from netlink.rules import Rule, add_rule, delete_rule
from plugins.attach.gateways import DEFAULT_NETWORKS
from plugins.attach.pod_routing import KERNELS_OWN, free_tables, is_link_local, put_back
from plugins.sbr import SbrConfig
from skel import Address, CniError, Code, IPConfig, Network, Result, Undo, with_length

_FIRST_TABLE = 100
_RT_SCOPE_LINK = 253
_IPV4 = 4
_LINK_LOCAL = IPv6Network("fe80::/64")
_KERNELS_PRIORITY = 256


def separate(pod: Rtnl, undo: Undo, config: SbrConfig, link: Link, ips: list[IPConfig], rules: list[Rule]) -> None:
    """Copy the interface's routes to a table for each address, then take them out of the main table.

    Raises NetlinkError.
    """
    main = copy_routes(pod, link.ifindex)
    for ip, table in zip(ips, free_tables(pod, rules, _FIRST_TABLE)):  # noqa: B905 - there are tables enough
        undo.add(_empty, pod, link, table)
        _fill(pod, config, link, ip, [copy for copy in main if _belongs(copy, ip, ips)], table)
        put_rule(pod, undo, ip, table)
    undo.add(put_back, pod, link.ifindex, main)
    _leave_main(pod, config, link, ips, main)


def _fill(pod: Rtnl, config: SbrConfig, link: Link, ip: IPConfig, copies: list[RouteCopy], table: int) -> None:
    """Give an address its table: the copies, and a default route, which may have been lost before."""
    default = DEFAULT_NETWORKS[ip.address.version]
    gateway = config.gateway(default.version)
    if gateway is not None:
        copies = [copy for copy in copies if copy.route.dst != default]
    elif all(copy.route.dst != default for copy in copies):
        gateway = ip.gateway
    requests = [copy.add(table) for copy in copies]
    if default.version != _IPV4 and not any(map(is_link_local, copies)):
        # The kernel makes it some time after the interface came up. Neighbours ask from link-local addresses.
        requests.append(add_route(new_route(link.ifindex, _LINK_LOCAL, priority=_KERNELS_PRIORITY, table=table)))
    if gateway is not None:
        requests.append(add_route(new_route(link.ifindex, default, gateway=gateway, table=table)))
    pod.send(*requests)


def _leave_main(pod: Rtnl, config: SbrConfig, link: Link, ips: list[IPConfig], main: list[RouteCopy]) -> None:
    """Delete the interface's routes from the main table.

    With `addSourceHints` those to its networks stay, and name the address as the source of new connections.
    """
    versions = {ip.address.version for ip in ips}
    going = [copy for copy in main if copy.route.dst.version in versions and not is_link_local(copy)]
    if config.add_source_hints:
        hinted = []
        for ip in ips:
            network = ip.address.network
            found = [copy for copy in going if copy.route.dst == network and copy.source is None]
            if all(copy.route.dst != network for copy in main):
                found = [route_copy(new_route(link.ifindex, network, scope=_RT_SCOPE_LINK))]
            hinted += [copy.add(source=ip.address.ip, replace=True) for copy in found]
        pod.send(*hinted)
        kept = {ip.address.network for ip in ips}
        going = [copy for copy in going if copy.route.gateway is not None and copy.route.dst not in kept]
    pod.send(*(copy.delete() for copy in reversed(going)))


def restore_routes(pod: Rtnl, config: SbrConfig, link: Link, result: Result | None, table: int) -> None:
    """Move an address's routes back to the main table; default routes only if the result has them, too.

    A route of another interface to the same destination stays. Routes of the kernel's own tables stay, too: only other
    programs' rules name these tables. Raises NetlinkError.
    """
    if table in KERNELS_OWN:
        return
    copies = copy_routes(pod, link.ifindex, table)
    known = {route.dst for route in result.routes} if result is not None else set()
    lost = {DEFAULT_NETWORKS[gateway.version] for gateway in config.gateways}
    hinted = {copy.route.dst for copy in copy_routes(pod, link.ifindex)}
    going = [copy for copy in copies if not is_link_local(copy)]
    back = [copy for copy in going if copy.route.dst.prefixlen or copy.route.dst in known - lost]
    pod.send(*(copy.add(RT_TABLE_MAIN, replace=copy.route.dst in hinted) for copy in back))
    pod.send(*(copy.delete() for copy in reversed(copies)))


def _belongs(copy: RouteCopy, ip: IPConfig, ips: Iterable[IPConfig]) -> bool:
    """Tell whether a route is one for packets from an address: by its source or gateway, if it has one."""
    if copy.route.dst.version != ip.address.version:
        return False
    hints = [hint for hint in (copy.source, copy.route.gateway) if hint is not None]
    return _is_near(hints, ip) or not any(_is_near(hints, each) for each in ips)


def _is_near(hints: Iterable[Address], ip: IPConfig) -> bool:
    return any(hint in ip.address.network for hint in hints)


def expected_routes(
    config: SbrConfig, result: Result, ip: IPConfig, ips: Iterable[IPConfig]
) -> dict[Network, Address | None]:
    """Return the destinations of an address's table by `result`, each with its gateway or None."""
    default = DEFAULT_NETWORKS[ip.address.version]
    routes: dict[Network, Address | None] = {} if ip.gateway is None else {default: ip.gateway}
    if ip.address.network.prefixlen < ip.address.max_prefixlen:
        routes[ip.address.network] = None
    for route in result.routes:
        hints = [] if route.gw is None else [route.gw]
        elsewhere = not _is_near(hints, ip) and any(_is_near(hints, each) for each in ips)
        if route.dst.version == default.version and route.table is None and not elsewhere:
            routes[route.dst] = route.gw or routes.get(route.dst)
    if (gateway := config.gateway(default.version)) is not None:
        routes[default] = gateway
    return routes


def check_table(
    pod: Rtnl, config: SbrConfig, link: Link, ip: IPConfig, routes: dict[Network, Address | None], table: int
) -> None:
    """Raise CniError (999) if an address's table lacks one of the `routes`, or the main table a source hint."""
    present = {(copy.route.dst, copy.route.gateway) for copy in copy_routes(pod, link.ifindex, table)}
    main = copy_routes(pod, link.ifindex)
    later = {copy.route.dst for copy in main} - {ip.address.network}  # a later plugin may have made them
    for dst, gateway in routes.items():
        found = (dst, gateway) in present or (gateway is None and any(dst == known for known, _ in present))
        if not found and dst not in later:
            via = f" via {gateway}" if gateway else ""
            raise CniError(Code.INTERNAL, f"route to {dst}{via} is missing in table {table} of the container")
    if config.add_source_hints:
        hints = {(copy.route.dst, copy.source) for copy in main}
        if (ip.address.network, ip.address.ip) not in hints:
            message = f"route to {ip.address.network} from {ip.address.ip} is missing in the container's main table"
            raise CniError(Code.INTERNAL, message)


def put_rule(pod: Rtnl, undo: Undo, ip: IPConfig, table: int) -> None:
    """Add the rule from an address to a table, its inverse on `undo`. Raises NetlinkError."""
    src = host_network(ip.address.ip)
    undo.add(lambda: pod.send(delete_rule(Rule(src, table))))
    pod.send(add_rule(src, table))


def _empty(pod: Rtnl, link: Link, table: int) -> None:
    pod.send(*(copy.delete() for copy in reversed(copy_routes(pod, link.ifindex, table))))


def tables_of(ip: IPConfig, rules: Iterable[Rule]) -> list[int]:
    """Return the tables that rules from an address name."""
    return [rule.table for rule in rules if rule.src == host_network(ip.address.ip)]


def host_network(address: Address) -> Network:
    """Return the network of one address: /32 or /128."""
    return with_length(address, address.max_prefixlen).network
