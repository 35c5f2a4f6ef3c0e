"""vrf: puts the pod's interface into a VRF of the pod, which has a routing table of its own.

The VRF is made for its first interface, and deleted with its last one. The interface keeps its addresses and routes.
The kernel drops most of them when an interface changes its VRF, so the plugin writes them again, into the VRF's table.

All of this is in the pod, and ends with it: GC and REPAIR have nothing to do.
"""

from fast_stdlib.typing import TYPE_CHECKING
from plugins.attach.attachment import nothing, open_pod, open_pod_if_left, pod_ips, required_result
from skel import Args, CniError, Code, Config, Plugin, Result, Undo, field, integer_between, interface_name
from skel.versions import REFERENCE_RELEASE

if TYPE_CHECKING:
    from netlink.addresses import Address
    from netlink.link import Link
    from netlink.route_copies import RouteCopy
    from netlink.rtnl import Rtnl

_FIRST_TABLE = 1
_RT_TABLE_MAIN = 254
_IPV4 = 4
_USABLE_SECONDS = 5.0
_RT_SCOPE_UNIVERSE = 0


class VrfConfig(Config):
    """Keys of the reference plugin."""

    vrfname: str = field(interface_name, "vrfname")
    table: int = field(integer_between(0, 2**32 - 1, "the number of a routing table"), default=0)
    """0: that of an existing VRF, or else the first free one."""


def add(args: Args[VrfConfig]) -> Result:
    """Put the interface into the VRF. Raises CniError: 7 if the VRF's name or table is taken; also 4, 999.

    A VRF that this ADD makes is in the result (SPEC.md section 5, "interfaces").
    """
    from netlink.rtnl import Rtnl
    from plugins.attach.driver import interface_of
    from plugins.attach.pod_interface import require_interface
    from plugins.attach.pod_routing import lock

    result = required_result(args)
    with open_pod(args) as netns, Rtnl(netns) as pod, Undo(args.log, args.interruption) as undo:
        lock(netns, args.interruption)
        link = require_interface(pod, args.ifname)
        if link.master:
            raise CniError(Code.INTERNAL, f'"{link.name}" is in {_name_of(pod, link.master)} already')
        vrf = _find(pod, args.config)
        if vrf is None:
            vrf = _make(pod, undo, args.config)
            result.interfaces.append(interface_of(vrf, args.netns))
        kept = _Kept(pod, link, _RT_TABLE_MAIN)
        undo.add(kept.leave)
        kept.enter(vrf)
        with args.interruption.waiting():
            usable = pod.wait_addresses_settled(link.ifindex, _USABLE_SECONDS)
        if not usable:
            message = f'IPv6 addresses of "{link.name}" were not usable in the VRF within {_USABLE_SECONDS} s'
            raise CniError(Code.TRY_AGAIN_LATER, message)
    return result


def check(args: Args[VrfConfig]) -> None:
    """Raise CniError (999) if the interface is not in the VRF, or an address or route is missing; also 4, 7."""
    from netlink.rtnl import Rtnl
    from plugins.attach.pod_interface import check_addresses_and_routes, require_interface

    config, result = args.config, required_result(args)
    with open_pod(args) as netns, Rtnl(netns) as pod:
        link = require_interface(pod, args.ifname)
        vrf = _find(pod, config)
        if vrf is None:
            raise CniError(Code.INTERNAL, f'VRF "{config.vrfname}" is missing in the container')
        if not vrf.up:
            raise CniError(Code.INTERNAL, f'VRF "{config.vrfname}" in the container is down')
        if link.master != vrf.ifindex:
            raise CniError(Code.INTERNAL, f'"{link.name}" is not in the VRF "{vrf.name}"')
        ips = pod_ips(result, args.ifname, args.netns)
        families = {ip.address.version for ip in ips}
        # If the interface has no address of a family, routes of that family are another interface's.
        routes = [route for route in result.routes if route.dst.version in families]
        check_addresses_and_routes(pod, link, routes, [ip.address for ip in ips], vrf.details.vrf_table)


def delete(args: Args[VrfConfig]) -> None:
    """Take the interface out of the VRF, and delete a VRF without interfaces. Raises CniError (8).

    The interface keeps its addresses and routes. A pod that is gone is no error.
    """
    netns = open_pod_if_left(args)
    if netns is None:
        return
    from netlink.rtnl import Rtnl
    from plugins.attach.pod_routing import lock

    with netns, Rtnl(netns) as pod:
        lock(netns, args.interruption)
        vrf = pod.link(args.config.vrfname)
        if vrf is None or vrf.kind != "vrf":
            return
        link = pod.link(args.ifname)
        if link is not None and link.master == vrf.ifindex:
            _Kept(pod, link, vrf.details.vrf_table).leave()
        _delete_if_unused(pod, vrf.name)


class _Kept:
    """An interface's IPv6 addresses and routes, written again when it has changed its VRF.

    Routes of its present `table` go into the new one; those of other tables, such as sbr's, stay there.
    """

    def __init__(self, pod: "Rtnl", link: "Link", table: int) -> None:
        from netlink.route_copies import copy_routes

        self._pod = pod
        self._link = link
        self._table = table
        self._addresses: list[Address] = [each for each in pod.addresses(link.ifindex) if _is_flushed(each)]
        self._routes: list[RouteCopy] = copy_routes(pod, link.ifindex, None)

    def enter(self, vrf: "Link") -> None:
        """Put the interface into the VRF. Raises NetlinkError."""
        self._pod.set_master(self._link.ifindex, vrf.ifindex)
        self._write(vrf.details.vrf_table)

    def leave(self) -> None:
        """Take the interface out, if it is in a VRF. Raises NetlinkError."""
        now = self._pod.link(self._link.ifindex)
        if now is not None and now.master:
            self._pod.set_master(now.ifindex, 0)
            self._write(_RT_TABLE_MAIN)

    def _write(self, table: int) -> None:
        """Write the addresses, then the routes, those of the old table into `table`."""
        from netlink.addresses import readd_address

        self._pod.send(*map(readd_address, self._addresses))
        self._pod.send(
            *(copy.add(table if copy.route.table == self._table else copy.route.table) for copy in self._routes)
        )


def _is_flushed(address: "Address") -> bool:
    """Tell whether the kernel may flush an address with the change: IPv6, without `keep_addr_on_down`."""
    return address.interface.version != _IPV4 and address.scope == _RT_SCOPE_UNIVERSE and not address.dadfailed


def _find(pod: "Rtnl", config: VrfConfig) -> "Link | None":
    """Return the VRF, or None if no link has its name. Raises CniError (7) for another kind of link, or table."""
    found = pod.link(config.vrfname)
    if found is None:
        return None
    if found.kind != "vrf":
        message = f'vrfname: "{config.vrfname}" in the container is no VRF but "{found.kind}"'
        raise CniError(Code.INVALID_CONFIG, message)
    table = found.details.vrf_table
    if config.table not in {0, table}:
        message = f'table: expected {table}, the table of the VRF "{found.name}", got {config.table}'
        raise CniError(Code.INVALID_CONFIG, message)
    return found


def _make(pod: "Rtnl", undo: Undo, config: VrfConfig) -> "Link":
    from netlink import kinds
    from netlink.link import find_link
    from netlink.rules import list_rules
    from plugins.attach.pod_routing import free_tables

    name = config.vrfname
    table = config.table or next(free_tables(pod, list_rules(pod), _FIRST_TABLE))
    undo.add(_delete_if_unused, pod, name)
    made = find_link(name)
    pod.create_link("vrf", name, data=kinds.vrf(table=table), up=True, looks=[made])
    if made.answer is None:
        raise CniError(Code.INTERNAL, f'"{name}" in the container is gone')
    return made.answer


def _delete_if_unused(pod: "Rtnl", name: str) -> None:
    vrf = pod.link(name)
    if vrf is not None and vrf.kind == "vrf" and not pod.links_of(vrf.ifindex):
        pod.delete_link(vrf.ifindex)


def _name_of(pod: "Rtnl", ifindex: int) -> str:
    link = pod.link(ifindex)
    return f'the {link.kind} "{link.name}"' if link is not None else f"link {ifindex}"


PLUGIN = Plugin(
    "vrf",
    config=VrfConfig,
    add=add,
    check=check,
    delete=delete,
    gc=nothing,
    status=nothing,
    repair=nothing,
    version=REFERENCE_RELEASE,
)
