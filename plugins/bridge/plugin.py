"""bridge: a pod's interface is one end of a veth pair, the other is a port of a bridge on the host.

ADD makes the bridge where it is not there, then the pair; asks the IPAM plugin
for addresses and configures the pod's end with them; and, as the configuration
says, gives the bridge the pods' gateway addresses and masquerades what leaves
their networks. DEL finds what to remove from the container ID alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from lean.typing import TYPE_CHECKING
from plugins.attach.gateways import add_default_routes, held_gateways, set_gateways
from plugins.attach.host_veth import host_veth_name
from plugins.attach.pod_ips import pod_ips
from plugins.bridge.config import BridgeConfig
from skel import Args, Cidr, CniError, Code, Interface, Plugin, Result, Undo
from skel.delegate import ipam_add, ipam_check, ipam_delete, ipam_gc, ipam_status
from skel.versions import REFERENCE_RELEASE

if TYPE_CHECKING:
    from netlink.rtnl import Link, Rtnl

__all__ = ["PLUGIN"]

_POD = 2
"""Index of the pod's interface in the result, after the bridge and the host's end."""


def add(args: Args[BridgeConfig]) -> Result:
    """Connect the pod; return the bridge, both ends of the pair, and the pod's addresses and routes."""
    from netlink.link import find_link
    from netlink.namespace import current_namespace
    from plugins.attach import pod_interface, pod_netns
    from plugins.attach.netfilter import firewall_of, owner_of
    from plugins.bridge import gateways as bridge_gateways
    from plugins.bridge import host as bridge_host
    from plugins.bridge.undo import BridgeUndo

    config = args.config
    config.check_for_add()
    mac = config.requested_mac(args.cni_args) or bridge_host.random_mac()
    name = host_veth_name(args.container_id, args.ifname)
    owner = owner_of(args)
    with (
        pod_netns.open_pod(args) as namespace,
        _kept_rtnl(args) as host,
        BridgeUndo(args.log, host, config.bridge, name, args.interruption) as undo,
    ):
        bridge = bridge_host.ensure_bridge(host, config, undo)
        port_mac = bridge_host.random_mac(above=bridge.mac)
        undo.add(bridge_host.delete_own, host, name, port_mac)
        bridge, port, present = bridge_host.connect(
            host,
            bridge,
            config,
            undo,
            name=name,
            port_mac=port_mac,
            peer=args.ifname,
            namespace=namespace,
            mac=mac,
            alias=owner.label(),
        )
        bridge_host.tag(host, port, config, config.trunk_vlans())
        if config.mac_spoof_check:
            from firewall import spoofcheck

            undo.add(spoofcheck.remove, firewall_of(args), owner, port.name)
            spoofcheck.apply(firewall_of(args), owner, port.name, mac)
        result = Result(interfaces=[_interface(bridge), _interface(port)])
        gateways = _reserve(args, result, undo) if config.ipam.type else []
        seen = find_link(port.ifindex)
        wait = partial(bridge_host.wait_port_up, host, port, bridge)
        with pod_interface.opened(namespace, args.ifname, result, dad=config.enable_dad) as pod:
            if config.disable_container_interface:
                inner = pod_interface.require_interface(pod, args.ifname)
            else:
                inner = pod_interface.configure(
                    pod,
                    port.peer_ifindex,
                    args.ifname,
                    result,
                    dad=config.enable_dad,
                    wait_reachable=wait,
                    waiting=args.interruption.waiting,
                )
            result.interfaces.append(_interface(inner, args.netns))
            holder = bridge
            if gateways and config.vlan:
                with current_namespace() as here:
                    holder = bridge_gateways.ensure_vlan_gateway(host, bridge, config, here, undo)
                result.interfaces.append(_interface(holder))
            bridge_gateways.ensure_gateways(
                host,
                holder,
                gateways,
                force=config.force_address,
                undo=undo,
                present=present if holder is bridge else None,
                look=seen,
            )
            bridge_gateways.forward(gateways)
            if config.ipam.type and config.ip_masq:
                from firewall import masquerade

                addresses = [ip.address for ip in result.ips]
                undo.add(masquerade.remove, firewall_of(args), owner, addresses)
                masquerade.apply(firewall_of(args), owner, addresses, config.ip_masq_backend)
            if not config.disable_container_interface:
                with args.interruption.waiting():
                    wait(seen.answer)
                pod_interface.announce(pod, inner)
        result.dns = config.dns or result.dns
    return result


def delete(args: Args[BridgeConfig]) -> None:
    """Take the pod's connection away, then its addresses and what the firewall knows of it; go on past errors."""
    from plugins.attach.disconnect import disconnect
    from plugins.attach.netfilter import firewall_of, owner_of
    from skel.steps import Steps

    config = args.config
    with Steps() as steps:
        # Before the pair is gone, no other pod may get the addresses.
        steps.take(disconnect, args)
        if config.mac_spoof_check:
            from firewall import spoofcheck

            port = host_veth_name(args.container_id, args.ifname)
            steps.take(lambda: spoofcheck.remove(firewall_of(args), owner_of(args), port))
        if config.ip_masq:
            from firewall import masquerade

            addresses = [ip.address for ip in pod_ips(args.prev_result, args.ifname, args.netns)]
            steps.take(lambda: masquerade.remove(firewall_of(args), owner_of(args), addresses))
        steps.take(_with_ipam, args, ipam_delete)


def check(args: Args[BridgeConfig]) -> None:
    """Raise CniError where the kernel differs from what ADD returned (SPEC.md section 2, CHECK)."""
    from firewall import spoofcheck
    from netlink.rtnl import Rtnl
    from plugins.attach import ip_masq, pod_interface, pod_netns
    from plugins.attach.netfilter import firewall_of, owner_of
    from plugins.bridge import check as bridge_check

    config, result = args.config, args.prev_result
    if config.ipam.type:
        ipam_check(args)
    if result is None:
        raise CniError(Code.INVALID_CONFIG, "prevResult: required key is missing")
    with pod_netns.open_pod(args) as namespace, Rtnl() as host, Rtnl(namespace) as pod:
        bridge = bridge_check.check_bridge(host, config, result)
        inner = bridge_check.check_pod_interface(pod, config, result, args.ifname, args.netns)
        port = bridge_check.check_port(host, config, result, inner, bridge)
        ips = pod_ips(result, args.ifname, args.netns)
        addresses = [ip.address for ip in ips]
        pod_interface.check_addresses_and_routes(pod, inner, result.routes, addresses)
        if config.ipam.type and config.gateway:
            bridge_check.check_gateways(host, config, bridge, held_gateways(ips))
    if config.mac_spoof_check and not spoofcheck.holds(firewall_of(args), owner_of(args), port.name, inner.mac):
        raise CniError(Code.INTERNAL, f'source addresses of "{port.name}" are not checked')
    if config.ipam.type and config.ip_masq:
        ip_masq.check_masquerade(args, addresses)


def gc(args: Args[BridgeConfig]) -> None:
    """Remove what attachments of this network left that are no longer valid; go on past errors."""
    from firewall import masquerade, spoofcheck
    from firewall.owner import Owner
    from plugins.attach.netfilter import firewall_of
    from plugins.bridge import host as bridge_host
    from skel.steps import Steps

    with Steps() as steps:
        if args.config.valid_attachments is None:
            args.log("GC without a list of valid attachments: nothing is removed")
        else:
            valid = {
                Owner(args.config.name, attachment.container_id, attachment.ifname)
                for attachment in args.config.valid_attachments
            }
            steps.take(bridge_host.collect_ports, args.config, valid)
            steps.take(masquerade.collect, firewall_of(args), args.config.name, valid)
            steps.take(spoofcheck.collect, firewall_of(args), args.config.name, valid)
        steps.take(_with_ipam, args, ipam_gc)


def status(args: Args[BridgeConfig]) -> None:
    """Raise CniError (50, 51) where an ADD could not be served: the bridge's name is taken, or by the IPAM plugin."""
    from netlink.rtnl import Rtnl

    config = args.config
    config.check_for_add()
    with Rtnl() as host:
        found = host.link(config.bridge)
    if found is not None and found.kind != "bridge":
        raise CniError(Code.NOT_AVAILABLE, f'bridge: "{config.bridge}" exists already but is not a bridge')
    if found is not None and config.filters_vlans and not found.details.vlan_filtering:
        message = f'bridge: "{config.bridge}" has VLAN filtering off, so vlan and vlanTrunk would do nothing'
        raise CniError(Code.NOT_AVAILABLE, message)
    if config.ipam.type:
        ipam_status(args)


@contextmanager
def _kept_rtnl(args: Args[BridgeConfig]) -> Iterator["Rtnl"]:
    """Lend the host's socket, which the worker keeps open; closed after an error, which may leave answers unread."""
    from netlink.rtnl import Rtnl

    try:
        yield args.kept.get("rtnl", Rtnl)
    except BaseException:
        args.kept.drop("rtnl")
        raise


def _reserve(args: Args[BridgeConfig], result: Result, undo: Undo) -> list[Cidr]:
    """Ask the IPAM plugin for the pod's addresses and routes; return the gateway addresses that the host must have."""
    reserved = ipam_add(args)
    undo.add(ipam_delete, args)
    result.ips, result.routes, result.dns = reserved.ips, reserved.routes, reserved.dns
    for ip in result.ips:
        ip.interface = _POD
    gateways = set_gateways(result.ips) if args.config.gateway else []
    if args.config.is_default_gateway:
        add_default_routes(result)
    return gateways


def _interface(link: "Link", sandbox: str = "") -> Interface:
    return Interface(name=link.name, mac=link.mac, mtu=link.mtu, sandbox=sandbox)


def _with_ipam(args: Args[BridgeConfig], call: Callable[[Args[BridgeConfig]], None]) -> None:
    """Call the IPAM plugin, if there is one. A step of its own: `ipam.type` may be a key that cannot be read."""
    if args.config.ipam.type:
        call(args)


PLUGIN = Plugin(
    "bridge",
    config=BridgeConfig,
    add=add,
    delete=delete,
    check=check,
    gc=gc,
    status=status,
    env_args=("MAC", "IP"),
    version=REFERENCE_RELEASE,
)
