"""sbr: source based routing. Packets from an address of the pod's interface leave by that interface.

Each address gets a routing table of its own with the interface's routes, and a rule that looks up packets from the
address there. So a pod with two interfaces answers by the interface that was asked. With `table`, the routes are in
that table already, and the plugin adds the rules alone.

All of this is in the pod, and ends with it: GC and REPAIR have nothing to do.
"""

from plugins.attach.attachment import nothing, open_pod, open_pod_if_left, pod_ips, required_result
from skel import (
    Address,
    Args,
    CniError,
    Code,
    Config,
    IPConfig,
    Plugin,
    Result,
    Undo,
    address,
    boolean,
    expected,
    field,
    integer_between,
    list_of,
)
from skel.versions import REFERENCE_RELEASE

__all__ = ["PLUGIN"]


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
    from plugins.attach.pod_routing import lock
    from plugins.sbr.tables import put_rule, separate, tables_of

    args.config.check_for_add()
    result = required_result(args)
    ips = _ips(args)
    with open_pod(args) as netns, Rtnl(netns) as pod, Undo(args.log, args.interruption) as undo:
        lock(netns, args.interruption)
        link = require_interface(pod, args.ifname)
        rules = list_rules(pod)
        for ip in ips:
            if tables := tables_of(ip, rules):
                raise CniError(Code.INTERNAL, f"there is a rule from {ip.address.ip} to table {tables[0]} already")
        if args.config.table is not None:
            for ip in ips:
                put_rule(pod, undo, ip, args.config.table)
        else:
            separate(pod, undo, args.config, link, ips, rules)
    return result


def check(args: Args[SbrConfig]) -> None:
    """Raise CniError (999) for a missing rule or route; also 4, 7."""
    from netlink.rtnl import Rtnl
    from netlink.rules import list_rules
    from plugins.attach.pod_interface import require_interface
    from plugins.sbr.tables import check_table, expected_routes, tables_of

    config, result, ips = args.config, required_result(args), _ips(args)
    with open_pod(args) as netns, Rtnl(netns) as pod:
        link = require_interface(pod, args.ifname)
        rules = list_rules(pod)
        # A later plugin may have added addresses: those come without a gateway.
        own = [ip for ip in ips if ip.gateway is not None] or ips
        for ip in ips:
            tables = [table for table in tables_of(ip, rules) if config.table in {None, table}]
            if not tables and ip not in own:
                continue
            if not tables:
                where = "a table" if config.table is None else f"table {config.table}"
                raise CniError(Code.INTERNAL, f"rule from {ip.address.ip} to {where} is missing in the container")
            if config.table is None:
                check_table(pod, config, link, ip, expected_routes(config, result, ip, ips), tables[0])


def delete(args: Args[SbrConfig]) -> None:
    """Delete the rules from the interface's addresses, and put its routes back. Raises CniError (8).

    A pod that is gone is no error.
    """
    netns = open_pod_if_left(args)
    if netns is None:
        return
    from netlink.rtnl import Rtnl
    from netlink.rules import delete_rule, list_rules
    from plugins.sbr.tables import host_network, restore_routes

    with netns, Rtnl(netns) as pod:
        link = pod.link(args.ifname)
        # The path of the namespace may be another pod's by now: the interface's addresses count only without a result.
        sources = {host_network(ip.address.ip) for ip in pod_ips(args.prev_result, args.ifname, "")}
        if not sources and link is not None:
            sources = {host_network(each.interface.ip) for each in pod.addresses(link.ifindex)}
        rules = [rule for rule in list_rules(pod) if rule.src in sources and args.config.table in {None, rule.table}]
        if link is not None and args.config.table is None:
            for table in dict.fromkeys(rule.table for rule in rules):
                restore_routes(pod, args.config, link, args.prev_result, table)
        pod.send(*map(delete_rule, rules))


def status(args: Args[SbrConfig]) -> None:
    """Raise CniError (7) for keys that contradict each other."""
    args.config.check_for_add()


def _ips(args: Args[SbrConfig]) -> list[IPConfig]:
    ips = pod_ips(args.prev_result, args.ifname, args.netns)
    if not ips:
        raise CniError(Code.INVALID_CONFIG, f'prevResult.ips: "{args.ifname}" has no address')
    return ips


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
