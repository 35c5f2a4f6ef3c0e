"""CHECK of the bridge plugin: what ADD returned, held against the kernel (SPEC.md section 2)."""

from netlink.rtnl import Link, Rtnl
from plugins.attach.forwarding import check_forwarding
from plugins.attach.pod_interface import check_mac
from plugins.bridge.config import BridgeConfig
from plugins.bridge.gateways import vlan_gateway_name
from plugins.bridge.host import require_bridge
from skel import Cidr, CniError, Code, Result

__all__ = ["check_bridge", "check_gateways", "check_port"]


def check_bridge(host: Rtnl, config: BridgeConfig, result: Result) -> Link:
    """Return the network's bridge. Raises CniError where it is missing, down or not as configured."""
    bridge = require_bridge(host, config.bridge)
    _check_up(bridge)
    for interface in result.interfaces:
        if interface.name == bridge.name and not interface.sandbox:
            check_mac(interface, bridge)
    if bridge.promiscuous != config.promisc_mode:
        message = f'bridge "{bridge.name}" is promiscuous: {bridge.promiscuous}, promiscMode says {config.promisc_mode}'
        raise CniError(Code.INTERNAL, message)
    return bridge


def check_port(host: Rtnl, config: BridgeConfig, result: Result, inner: Link, bridge: Link) -> Link:
    """Return the host's end of the pair. Raises CniError where it is missing, down, or not the port it should be."""
    for interface in result.interfaces:
        port = None if interface.sandbox or interface.name == bridge.name else host.link(interface.name)
        if (
            port is None
            or port.kind != "veth"
            or port.ifindex != inner.peer_ifindex
            or port.peer_ifindex != inner.ifindex
        ):
            continue
        check_mac(interface, port)
        if port.master != bridge.ifindex:
            raise CniError(Code.INTERNAL, f'"{port.name}" is no port of the bridge "{bridge.name}"')
        _check_up(port)
        for key, wanted, found in (
            ("hairpinMode", config.hairpin_mode, port.hairpin),
            ("portIsolation", config.port_isolation, port.isolated),
        ):
            if wanted and not found:
                raise CniError(Code.INTERNAL, f'"{port.name}" lacks what {key}: true asks for')
        return port
    raise CniError(Code.INTERNAL, f'the host\'s end of "{inner.name}" is missing')


def check_gateways(host: Rtnl, config: BridgeConfig, bridge: Link, gateways: list[Cidr]) -> None:
    """Raise CniError (999) for a gateway address that is gone, or a family that the kernel does not forward.

    `gateways` are the addresses of the bridge, or of its VLAN's interface.
    """
    holder = bridge
    if gateways and config.vlan:
        name = vlan_gateway_name(config)
        found = host.link(name)
        if found is None:
            raise CniError(Code.INTERNAL, f'"{name}", which holds the gateway addresses, is missing')
        holder = found
        _check_up(holder)
    present = {address.interface for address in host.addresses(holder.ifindex)}
    for gateway in gateways:
        if gateway not in present:
            raise CniError(Code.INTERNAL, f'gateway address {gateway} is missing on "{holder.name}"')
    check_forwarding(gateways)


def _check_up(link: Link) -> None:
    if not link.up:
        raise CniError(Code.INTERNAL, f'"{link.name}" is down')
