"""sbr: source based routing. Packets from an address of the pod's interface leave by that interface.

Each address gets a routing table of its own with the interface's routes, and a rule that looks up packets from the
address there. So a pod with two interfaces answers on the one that it was asked on. With `table`, the routes are there
already, and the plugin adds the rules alone.

All of this is in the pod, and ends with it: GC and REPAIR have nothing to do.
"""

from collections.abc import Iterable

from lean.typing import TYPE_CHECKING
from plugins.attach.gateways import default_network
from plugins.attach.pod_ips import pod_ips
from plugins.chained import required_result
from skel import (
    Address,
    Args,
    CniError,
    Code,
    Config,
    IPConfig,
    Network,
    Plugin,
    Result,
    Undo,
    address,
    boolean,
    expected,
    field,
    integer_between,
    list_of,
    with_length,
)
from skel.versions import REFERENCE_RELEASE

if TYPE_CHECKING:
    from netlink.route_copies import RouteCopy
    from netlink.rtnl import Link, Rtnl
    from netlink.rules import Rule

__all__ = ["PLUGIN", "SbrConfig"]

_FIRST_TABLE = 100
_RT_SCOPE_LINK = 253


class SbrConfig(Config):
    """Keys of the reference plugin."""

    table: int | None = field(integer_between(1, 2**32 - 1, "the number of a routing table"), default=None)
    """Only add rules to this table."""
    gateways: list[Address] = field(list_of(address), default=list)
    """At most one of each family; they replace those of the addresses."""
    add_source_hints: bool = field(boolean, default=False)

    def check_for_add(self) -> None:
        """Raise CniError (7) for two gateways of one family."""
        if len({gateway.version for gateway in self.gateways}) < len(self.gateways):
            raise expected("at most one address of each family", list(map(str, self.gateways)), "gateways")

    def gateway(self, version: int) -> Address | None:
        """Return the configured gateway of a family."""
        return next((gateway for gateway in self.gateways if gateway.version == version), None)


def add(args: Args[SbrConfig]) -> Result:
    """Give each address of the interface its table and rule. Raises CniError (4, 7, 999)."""
    from netlink.rtnl import Rtnl
    from netlink.rules import list_rules
    from plugins.attach.pod_interface import require_interface
    from plugins.attach.pod_netns import open_pod
    from plugins.attach.pod_routing import lock

    args.config.check_for_add()
    result = required_result(args)
    ips = _ips(args)
    with open_pod(args) as netns, Rtnl(netns) as pod, Undo(args.log, args.interruption) as undo:
        lock(netns, args.interruption)
        link = require_interface(pod, args.ifname)
        rules = list_rules(pod)
        for ip in ips:
            if tables := _tables_of(ip, rules):
                raise CniError(Code.INTERNAL, f"there is a rule from {ip.address.ip} to table {tables[0]} already")
        if args.config.table is not None:
            for ip in ips:
                _add_rule(pod, undo, ip, args.config.table)
        else:
            _separate(pod, undo, args.config, link, ips, rules)
    return result


def check(args: Args[SbrConfig]) -> None:
    """Raise CniError (999) for a missing rule or route; also 4, 7."""
    from netlink.rtnl import Rtnl
    from netlink.rules import list_rules
    from plugins.attach.pod_interface import require_interface
    from plugins.attach.pod_netns import open_pod

    config, result, ips = args.config, required_result(args), _ips(args)
    with open_pod(args) as netns, Rtnl(netns) as pod:
        link = require_interface(pod, args.ifname)
        rules = list_rules(pod)
        # A later plugin may have added addresses: those come without a gateway.
        own = [ip for ip in ips if ip.gateway is not None] or ips
        for ip in ips:
            tables = [table for table in _tables_of(ip, rules) if config.table in {None, table}]
            if not tables and ip not in own:
                continue
            if not tables:
                where = "a table" if config.table is None else f"table {config.table}"
                raise CniError(Code.INTERNAL, f"rule from {ip.address.ip} to {where} is missing in the container")
            if config.table is None:
                _check_table(pod, config, link, ip, _expected_routes(config, result, ip, ips), tables[0])


def delete(args: Args[SbrConfig]) -> None:
    """Delete the rules from the interface's addresses, and put its routes back. Raises CniError (8).

    A pod that is gone is no error.
    """
    from plugins.attach.pod_netns import pod_if_left

    netns = pod_if_left(args)
    if netns is None:
        return
    from netlink.rtnl import Rtnl
    from netlink.rules import delete_rule, list_rules

    with netns, Rtnl(netns) as pod:
        link = pod.link(args.ifname)
        # The path of the namespace may be another pod's by now: the interface is asked for lack of a result alone.
        sources = {_alone(ip.address.ip) for ip in pod_ips(args.prev_result, args.ifname, "")}
        if not sources and link is not None:
            sources = {_alone(each.interface.ip) for each in pod.addresses(link.ifindex)}
        rules = [rule for rule in list_rules(pod) if rule.src in sources and args.config.table in {None, rule.table}]
        if link is not None and args.config.table is None:
            for table in dict.fromkeys(rule.table for rule in rules):
                _return(pod, args.config, link, args.prev_result, table)
        pod.send(*map(delete_rule, rules))


def nothing(args: Args[SbrConfig]) -> None:
    """Do nothing: rules and tables are in the pod's network namespace, and end with it."""
    del args


def status(args: Args[SbrConfig]) -> None:
    """Raise CniError (7) for keys that contradict each other."""
    args.config.check_for_add()


def _ips(args: Args[SbrConfig]) -> list[IPConfig]:
    ips = pod_ips(args.prev_result, args.ifname, args.netns)
    if not ips:
        raise CniError(Code.INVALID_CONFIG, f'prevResult.ips: "{args.ifname}" has no address')
    return ips


def _separate(
    pod: "Rtnl", undo: Undo, config: SbrConfig, link: "Link", ips: list[IPConfig], rules: "list[Rule]"
) -> None:
    """Copy the interface's routes to a table for each address, then take them out of the main table."""
    from netlink.route_copies import copy_routes
    from plugins.attach.pod_routing import free_tables, put_back

    main = copy_routes(pod, link.ifindex)
    for ip, table in zip(ips, free_tables(pod, rules, _FIRST_TABLE)):  # noqa: B905 - there are tables enough
        undo.add(_empty, pod, link, table)
        _fill(pod, config, link, ip, [copy for copy in main if _belongs(copy, ip, ips)], table)
        _add_rule(pod, undo, ip, table)
    undo.add(put_back, pod, link.ifindex, main)
    _leave_main(pod, config, link, ips, main)


def _fill(pod: "Rtnl", config: SbrConfig, link: "Link", ip: IPConfig, copies: "list[RouteCopy]", table: int) -> None:
    """Give an address its table: the copies, and a default route, which may have been lost before."""
    from netlink.routes import add_route, new_route

    default = default_network(ip.address.version)
    gateway = config.gateway(default.version)
    if gateway is not None:
        copies = [copy for copy in copies if copy.route.dst != default]
    elif all(copy.route.dst != default for copy in copies):
        gateway = ip.gateway
    requests = [copy.add(table) for copy in copies]
    if gateway is not None:
        requests.append(add_route(new_route(link.ifindex, default, gateway=gateway, table=table)))
    pod.send(*requests)


def _leave_main(pod: "Rtnl", config: SbrConfig, link: "Link", ips: list[IPConfig], main: "list[RouteCopy]") -> None:
    """Delete the interface's routes from the main table.

    With `addSourceHints` those to its networks stay, and name the address as the source of new connections.
    """
    from netlink.route_copies import route_copy
    from netlink.routes import new_route
    from plugins.attach.pod_routing import is_link_local

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


def _return(pod: "Rtnl", config: SbrConfig, link: "Link", result: Result | None, table: int) -> None:
    """Move an address's routes back to the main table; default routes only if the result has them, too.

    A route of another interface to the same destination stays.
    """
    from netlink.route_copies import copy_routes
    from netlink.routes import RT_TABLE_MAIN

    copies = copy_routes(pod, link.ifindex, table)
    known = {route.dst for route in result.routes} if result is not None else set()
    lost = {default_network(gateway.version) for gateway in config.gateways}
    hinted = {copy.route.dst for copy in copy_routes(pod, link.ifindex)}
    back = [copy for copy in copies if copy.route.dst.prefixlen or copy.route.dst in known - lost]
    pod.send(*(copy.add(RT_TABLE_MAIN, replace=copy.route.dst in hinted) for copy in back))
    pod.send(*(copy.delete() for copy in reversed(copies)))


def _belongs(copy: "RouteCopy", ip: IPConfig, ips: Iterable[IPConfig]) -> bool:
    """Tell whether a route is one for packets from an address: by its source or gateway, if these tell."""
    if copy.route.dst.version != ip.address.version:
        return False
    hints = [hint for hint in (copy.source, copy.route.gateway) if hint is not None]
    return _is_near(hints, ip) or not any(_is_near(hints, each) for each in ips)


def _is_near(hints: Iterable[Address], ip: IPConfig) -> bool:
    return any(hint in ip.address.network for hint in hints)


def _expected_routes(
    config: SbrConfig, result: Result, ip: IPConfig, ips: Iterable[IPConfig]
) -> dict[Network, Address | None]:
    """Return the destinations of an address's table by `result`, with their gateways where it says one."""
    default = default_network(ip.address.version)
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


def _check_table(
    pod: "Rtnl", config: SbrConfig, link: "Link", ip: IPConfig, routes: dict[Network, Address | None], table: int
) -> None:
    from netlink.route_copies import copy_routes

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


def _add_rule(pod: "Rtnl", undo: Undo, ip: IPConfig, table: int) -> None:
    from netlink.rules import Rule, add_rule, delete_rule

    src = _alone(ip.address.ip)
    undo.add(lambda: pod.send(delete_rule(Rule(src, table))))
    pod.send(add_rule(src, table))


def _empty(pod: "Rtnl", link: "Link", table: int) -> None:
    from netlink.route_copies import copy_routes

    pod.send(*(copy.delete() for copy in reversed(copy_routes(pod, link.ifindex, table))))


def _tables_of(ip: IPConfig, rules: "Iterable[Rule]") -> list[int]:
    return [rule.table for rule in rules if rule.src == _alone(ip.address.ip)]


def _alone(address: Address) -> Network:
    return with_length(address, address.max_prefixlen).network


PLUGIN = Plugin(
    "sbr",
    config=SbrConfig,
    add=add,
    check=check,
    delete=delete,
    gc=nothing,
    status=status,
    repair=nothing,
    version=REFERENCE_RELEASE,
)
