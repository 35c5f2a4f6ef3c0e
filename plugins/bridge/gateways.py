"""The gateway addresses of the bridge plugin's pods: on the bridge, or on an interface of their VLAN.

A function that takes an `undo` registers the inverse of each of its changes on it, before the change.
"""

from fast_stdlib.typing import Any
from netlink.addresses import Address, add_address
from netlink.link import Link
from netlink.namespace import Namespace
from netlink.request import RtnlRequest
from netlink.rtnl import Rtnl
from plugins.attach.host_veth import delete_own, host_veth_name
from plugins.attach.interface_config import random_mac
from plugins.bridge.config import BridgeConfig
from plugins.bridge.host import BridgeUndo, bring_up, connect, tag
from skel import Cidr, CniError, Code

_IPV4 = 4


def ensure_vlan_gateway(host: Rtnl, bridge: Link, config: BridgeConfig, here: Namespace, undo: BridgeUndo) -> Link:
    """Return the interface that holds the gateway addresses of a VLAN: BRIDGE.VLAN, a veth into the bridge."""
    name = vlan_gateway_name(config)
    gateway = host.link(name)
    if gateway is None:
        end = host_veth_name(bridge.name, name)
        undo.own_ports.add(end)
        port_mac = random_mac(above=bridge.mac)
        undo.add_shared(delete_own, host, end, port_mac)
        try:
            connected = connect(
                host, bridge, config, undo, name=end, port_mac=port_mac, peer=name, namespace=here, for_pod=False
            )
        except CniError:
            pass  # another ADD was faster: the look-up below finds its interface
        else:
            tag(host, connected.port, config, [])
        gateway = host.link(name)
    if gateway is None:
        raise CniError(Code.TRY_AGAIN_LATER, f'"{name}" disappeared while it was being made')
    bring_up(host, gateway, undo)
    return gateway


def ensure_gateways(
    host: Rtnl,
    holder: Link,
    gateways: list[Cidr],
    present: list[Address],
    *,
    force: bool,
    undo: BridgeUndo,
    look: RtnlRequest[Any] | None = None,
) -> None:
    """Give `holder` (the bridge, or a VLAN's gateway) the pods' gateway addresses beside those that are `present`.

    `look` is sent along. Raises CniError (7) if the holder has another address already, unless `force`, and
    NetlinkError.
    """
    held = [address.interface for address in present]
    missing: list[Cidr] = []
    for gateway in gateways:
        for other in list(held):
            if other == gateway:
                break
            if not _excludes(other, gateway):
                continue
            if not force:
                message = f'"{holder.name}" already has an IP address different from {gateway}: {other}'
                raise CniError(Code.INVALID_CONFIG, message)
            _take(host, holder, other, missing, undo)
            held.remove(other)
        else:
            missing.append(gateway)
            held.append(gateway)
    additions = []
    for gateway in missing:
        back = undo.add_shared(host.delete_address, holder.ifindex, gateway)
        # Without duplicate address detection: a pod's gateway must answer now, not in two seconds.
        additions.append((back, add_address(holder.ifindex, gateway, nodad=True, exist_ok=True)))
    host.send(*(addition for _, addition in additions), *([look] if look else []))
    for back, addition in additions:
        if not addition.answer:
            undo.forget(back)  # another ADD was faster


def vlan_gateway_name(config: BridgeConfig) -> str:
    """Return the name of the interface that holds the gateway addresses of the configuration's VLAN."""
    return f"{config.bridge}.{config.vlan}"


def _excludes(present: Cidr, gateway: Cidr) -> bool:
    """Tell whether a bridge with one address cannot have the other: IPv4 takes one, IPv6 one for each network."""
    if present.version != gateway.version:
        return False
    return gateway.version == _IPV4 or present.network.overlaps(gateway.network)


def _take(host: Rtnl, holder: Link, address: Cidr, missing: list[Cidr], undo: BridgeUndo) -> None:
    """Take an address from the holder: one that it has, or one that it was about to get."""
    if address in missing:
        missing.remove(address)
        return
    undo.add(host.add_address, holder.ifindex, address, nodad=True, exist_ok=True)
    host.delete_address(holder.ifindex, address)
