"""CHECK of the bridge plugin: the host compared with the result of ADD (SPEC.md section 2)."""

from netlink.link import Link
from netlink.rtnl import Rtnl
from plugins.attach.driver import Attached
from plugins.attach.gateways import check_forwarding
from plugins.attach.host_veth import check_host_end
from plugins.attach.pod_interface import check_mac
from plugins.bridge.config import BridgeConfig
from plugins.bridge.gateways import vlan_gateway_name
from plugins.bridge.host import missing_vlans, require_bridge
from skel import Cidr, CniError, Code


def check_host(config: BridgeConfig, at: Attached, gateways: list[Cidr]) -> Link:
    """Return the host's end of the pair.

    Raises CniError (7, 999) if the bridge, that end or an address of `gateways` is missing, or differs.
    """
    bridge = _check_bridge(config, at)
    port = _check_port(config, at, bridge)
    if gateways:
        _check_gateways(at.host, config, bridge, gateways)
    return port


def _check_bridge(config: BridgeConfig, at: Attached) -> Link:
    bridge = require_bridge(at.host, config.bridge)
    _check_up(bridge)
    for interface in at.result.interfaces:
        if interface.name == bridge.name and not interface.sandbox:
            check_mac(interface, bridge)
    if bridge.promiscuous != config.promisc_mode:
        message = f'bridge "{bridge.name}" is promiscuous: {bridge.promiscuous}, promiscMode says {config.promisc_mode}'
        raise CniError(Code.INTERNAL, message)
    return bridge


def _check_port(config: BridgeConfig, at: Attached, bridge: Link) -> Link:
    port = check_host_end(at.host, at.result, at.inner)
    if port.master != bridge.ifindex:
        raise CniError(Code.INTERNAL, f'"{port.name}" is no port of the bridge "{bridge.name}"')
    for key, wanted, found in (
        ("hairpinMode", config.hairpin_mode, port.details.hairpin),
        ("portIsolation", config.port_isolation, port.details.isolated),
    ):
        if wanted and not found:
            raise CniError(Code.INTERNAL, f'"{port.name}" is not set up for {key}: true')
    _check_vlans(at.host, port, config, config.trunk_vlans())
    return port


def _check_gateways(host: Rtnl, config: BridgeConfig, bridge: Link, gateways: list[Cidr]) -> None:
    """Compare the addresses of the bridge, or of its VLAN's interface, and forwarding."""
    holder = bridge
    if config.vlan:
        name = vlan_gateway_name(config)
        found = host.link(name)
        if found is None:
            raise CniError(Code.INTERNAL, f'"{name}", which holds the gateway addresses, is missing')
        holder = found
        _check_up(holder)
        port = host.link(holder.peer_ifindex)
        if port is None or port.master != bridge.ifindex:
            message = f'"{name}", which holds the gateway addresses, has no port of the bridge "{bridge.name}"'
            raise CniError(Code.INTERNAL, message)
        _check_vlans(host, port, config, [])
    present = {address.interface for address in host.addresses(holder.ifindex)}
    for gateway in gateways:
        if gateway not in present:
            raise CniError(Code.INTERNAL, f'gateway address {gateway} is missing on "{holder.name}"')
    check_forwarding(gateways)


def _check_up(link: Link) -> None:
    if not link.up:
        raise CniError(Code.INTERNAL, f'"{link.name}" is down')


def _check_vlans(host: Rtnl, port: Link, config: BridgeConfig, trunk: list[int]) -> None:
    if config.filters_vlans and (missing := missing_vlans(host, port, config, trunk)):
        vlans = ", ".join(map(str, missing))
        raise CniError(Code.INTERNAL, f'"{port.name}" is not in all VLANs of the configuration; missing: {vlans}')
