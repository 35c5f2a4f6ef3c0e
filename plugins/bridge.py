"""bridge: a pod's interface is one end of a veth pair, the other is a port of a bridge on the host.

ADD makes the bridge where it is not there, then the pair; asks the IPAM plugin
for addresses and configures the pod's end with them; and, as the configuration
says, gives the bridge the pods' gateway addresses and masquerades what leaves
their networks. DEL finds what to remove from the container ID alone.
"""

from collections.abc import Callable
from functools import partial

from skel import Args, CniError, Code, Interface, Plugin, Result
from skel.delegate import ipam_add, ipam_check, ipam_delete, ipam_gc, ipam_status
from skel.versions import REFERENCE_RELEASE

from .bridge_config import BridgeConfig
from .gateways import add_default_routes, held_gateways, set_gateways
from .host_veth import host_veth_name
from .pod_ips import pod_ips

__all__ = ["PLUGIN"]

_POD = 2
"""Index of the pod's interface in the result, after the bridge and the host's end."""


def add(args: Args[BridgeConfig]) -> Result:
    """Connect the pod; return the bridge, both ends of the pair, and the pod's addresses and routes."""
    from netlink.namespace import current_namespace
    from netlink.rtnl import Rtnl

    from . import bridge_gateways, bridge_host, ip_masq, pod_interface, pod_netns, spoof_check
    from .bridge_undo import BridgeUndo

    config = args.config
    config.check_for_add()
    mac = config.requested_mac(args.cni_args)
    name = host_veth_name(args.container_id, args.ifname)
    with (
        pod_netns.open_pod(args) as namespace,
        Rtnl() as host,
        Rtnl(namespace) as pod,
        BridgeUndo(args.log, host, config.bridge, name, args.interruption) as undo,
    ):
        bridge = bridge_host.ensure_bridge(host, config, undo)
        alias = ip_masq.owner_of(args).label()
        port_mac = bridge_host.random_mac()
        undo.add(bridge_host.delete_own, host, name, port_mac)
        port = bridge_host.connect(
            host,
            bridge,
            config,
            name=name,
            port_mac=port_mac,
            peer=args.ifname,
            namespace=namespace,
            mac=mac,
            alias=alias,
        )
        bridge = bridge_host.require_bridge(host, bridge.name)  # with the MTU that it may have taken from the port
        bridge_host.tag(host, port, config, config.trunk_vlans())
        inner = pod_interface.require_interface(pod, args.ifname)
        result = Result(
            interfaces=[
                Interface(name=bridge.name, mac=bridge.mac, mtu=bridge.mtu),
                Interface(name=port.name, mac=port.mac, mtu=port.mtu),
                Interface(name=inner.name, mac=inner.mac, mtu=inner.mtu, sandbox=args.netns),
            ]
        )
        if config.mac_spoof_check:
            undo.add(spoof_check.disallow, args, port.name)
            spoof_check.allow_only(args, port.name, inner.mac)

        if config.ipam.type:
            reserved = ipam_add(args)
            undo.add(ipam_delete, args)
            result.ips, result.routes, result.dns = reserved.ips, reserved.routes, reserved.dns
            for ip in result.ips:
                ip.interface = _POD
            gateways = set_gateways(result.ips) if config.gateway else []
            if config.is_default_gateway:
                add_default_routes(result)
            wait = partial(bridge_host.wait_port_up, host, port, bridge)
            pod_interface.configure(
                pod,
                namespace,
                inner,
                result,
                dad=config.enable_dad,
                wait_reachable=wait,
                waiting=args.interruption.waiting,
            )
            holder = bridge
            if gateways and config.vlan:
                with current_namespace() as here:
                    holder = bridge_gateways.ensure_vlan_gateway(host, bridge, config, here, undo)
                result.interfaces.append(Interface(name=holder.name, mac=holder.mac, mtu=holder.mtu))
            bridge_gateways.ensure_gateways(host, holder, gateways, force=config.force_address, undo=undo)
            bridge_gateways.forward(gateways)
            if config.ip_masq:
                addresses = [ip.address for ip in result.ips]
                undo.add(ip_masq.unmasquerade, args, addresses)
                ip_masq.masquerade(args, addresses, config.ip_masq_backend)
        elif not config.disable_container_interface:
            pod.set_up(inner.index)

        if not config.disable_container_interface:
            with args.interruption.waiting():
                bridge_host.wait_port_up(host, port, bridge)
            pod_interface.announce(pod, inner)
        result.dns = config.dns or result.dns
    return result


def delete(args: Args[BridgeConfig]) -> None:
    """Take the pod's connection away, then its addresses and what the firewall knows of it; go on past errors."""
    from .disconnect import disconnect
    from .steps import Steps

    config = args.config
    with Steps() as steps:
        # Before the pair is gone, no other pod may get the addresses.
        steps.take(disconnect, args)
        if config.mac_spoof_check:
            from . import spoof_check

            steps.take(spoof_check.disallow, args, host_veth_name(args.container_id, args.ifname))
        if config.ip_masq:
            from . import ip_masq

            addresses = [ip.address for ip in pod_ips(args.prev_result, args.ifname, args.netns)]
            steps.take(ip_masq.unmasquerade, args, addresses)
        steps.take(_with_ipam, args, ipam_delete)


def check(args: Args[BridgeConfig]) -> None:
    """Raise CniError where the kernel differs from what ADD returned (SPEC.md section 2, CHECK)."""
    from netlink.rtnl import Rtnl

    from . import bridge_check, ip_masq, pod_interface, pod_netns, spoof_check

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
    if config.mac_spoof_check:
        spoof_check.check(args, port.name, inner.mac)
    if config.ipam.type and config.ip_masq:
        ip_masq.check_masquerade(args, addresses)


def gc(args: Args[BridgeConfig]) -> None:
    """Remove what attachments of this network left that are no longer valid; go on past errors."""
    from netlink.owner import Owner

    from . import bridge_host, ip_masq, spoof_check
    from .steps import Steps

    with Steps() as steps:
        if args.config.valid_attachments is None:
            args.log("GC without a list of valid attachments: nothing is removed")
        else:
            valid = {
                Owner(args.config.name, attachment.container_id, attachment.ifname)
                for attachment in args.config.valid_attachments
            }
            steps.take(bridge_host.collect_ports, args.config, valid)
            steps.take(ip_masq.collect_masquerade, args, valid)
            steps.take(spoof_check.collect, args, valid)
        steps.take(_with_ipam, args, ipam_gc)


def status(args: Args[BridgeConfig]) -> None:
    """Raise CniError (50, 51) where an ADD could not be served: the bridge's name is taken, or by the IPAM plugin."""
    from netlink.link_kind import link_kind

    config = args.config
    config.check_for_add()
    found = link_kind(config.bridge)
    if found is not None and found.kind != "bridge":
        raise CniError(Code.NOT_AVAILABLE, f'bridge: "{config.bridge}" exists already but is not a bridge')
    if found is not None and config.filters_vlans and not found.vlan_filtering:
        message = f'bridge: "{config.bridge}" has VLAN filtering off, so vlan and vlanTrunk would do nothing'
        raise CniError(Code.NOT_AVAILABLE, message)
    if config.ipam.type:
        ipam_status(args)


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
