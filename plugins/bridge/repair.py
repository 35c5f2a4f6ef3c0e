"""REPAIR of the bridge plugin: a deleted bridge, ports that have lost it, its addresses.

An undo is needed by the functions that ADD shares; nothing is taken back.
"""

from netlink.link import Link
from netlink.namespace import current_namespace
from netlink.rtnl import Rtnl
from plugins.attach.driver import Attached
from plugins.attach.host_veth import find_host_end
from plugins.bridge.config import BridgeConfig
from plugins.bridge.gateways import ensure_gateways, ensure_vlan_gateway
from plugins.bridge.host import BridgeUndo, ensure_bridge, keep_mac, missing_vlans, tag
from skel import Cidr, CniError, Code


def repair_links(config: BridgeConfig, at: Attached, gateways: list[Cidr], undo: BridgeUndo) -> None:
    """Make the bridge if it is missing, have the host's end of the pod's pair be its port, and add missing gateways.

    The new bridge gets the MAC of the old one, which is in the result: pods know it as their gateway's. The gateways
    are addresses of the bridge, or of the interface of the configuration's VLAN. Raises CniError: 7 if the name belongs
    to another kind of link, or another address of the same network is there, 999 if the pair is missing; and
    NetlinkError.
    """
    host = at.host
    port = find_host_end(host, at.result, at.inner)
    macs = [each.mac for each in at.result.interfaces if each.name == config.bridge and not each.sandbox and each.mac]
    bridge = holder = ensure_bridge(host, config, undo, mac=next(iter(macs), ""))
    _connect(host, config, port, bridge, undo)
    if not gateways:
        return
    if config.vlan:
        with current_namespace() as here:
            holder = ensure_vlan_gateway(host, bridge, config, here, undo)
        other = host.link(holder.peer_ifindex)
        if other is None or other.peer_ifindex != holder.ifindex:
            raise CniError(Code.INTERNAL, f'"{holder.name}" is no end of a veth pair in this network namespace')
        _connect(host, config, other, bridge, undo, for_pod=False)
    # Without `force`: the addresses of other pods' gateways stay.
    ensure_gateways(host, holder, gateways, host.addresses(holder.ifindex), force=False, undo=undo)


def _connect(
    host: Rtnl, config: BridgeConfig, port: Link, bridge: Link, undo: BridgeUndo, *, for_pod: bool = True
) -> None:
    """Make the link a port of the bridge with the settings of the configuration, and set it up."""
    has_joined = port.master != bridge.ifindex
    hairpin, isolated = for_pod and config.hairpin_mode, for_pod and config.port_isolation
    trunk = config.trunk_vlans() if for_pod else []
    if has_joined:
        host.set_master(port.ifindex, bridge.ifindex)
        keep_mac(host, bridge, port, undo)
        settings = port.details._replace(hairpin=False, isolated=False)
    else:
        settings = port.details
    if (hairpin and not settings.hairpin) or (isolated and not settings.isolated):
        host.set_port(
            port.ifindex, hairpin=hairpin or bool(settings.hairpin), isolated=isolated or bool(settings.isolated)
        )
    if config.filters_vlans and (has_joined or missing_vlans(host, port, config, trunk)):
        tag(host, port, config, trunk)
    if not port.up:
        host.set_up(port.ifindex)
