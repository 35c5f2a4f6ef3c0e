"""The gateway addresses of the bridge plugin's pods: on the bridge, or on an interface of their VLAN.

Each function that takes an `undo` registers on it how to unmake what it made, so
that an ADD that fails later leaves the node as it found it.
"""

from netlink.namespace import Namespace
from netlink.rtnl import Link, Rtnl
from netlink.sysctl import write_sysctl
from skel import Cidr, CniError, Code

from .bridge_config import BridgeConfig
from .bridge_host import bring_up, connect, delete_own, random_mac, tag
from .bridge_undo import BridgeUndo
from .host_veth import host_veth_name

__all__ = ["ensure_gateways", "ensure_vlan_gateway", "forward", "forwarding_keys", "vlan_gateway_name"]

_IPV4 = 4
_FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}


def ensure_vlan_gateway(host: Rtnl, bridge: Link, config: BridgeConfig, here: Namespace, undo: BridgeUndo) -> Link:
    """Return the interface that holds the gateway addresses of a VLAN: BRIDGE.VLAN, a veth into the bridge."""
    name = vlan_gateway_name(config)
    gateway = host.link(name)
    if gateway is None:
        end = host_veth_name(bridge.name, name)
        undo.own_ports.add(end)
        port_mac = random_mac()
        undo.add(undo.unless_counted_on(delete_own, host, end, port_mac))
        try:
            port = connect(
                host,
                bridge,
                config,
                name=end,
                port_mac=port_mac,
                peer=name,
                namespace=here,
                mac=random_mac(),
                for_pod=False,
            )
        except CniError:
            pass  # another ADD was faster, as the look below will show
        else:
            tag(host, port, config, [])
        gateway = host.link(name)
    if gateway is None:
        raise CniError(Code.TRY_AGAIN_LATER, f'"{name}" disappeared while it was being made')
    bring_up(host, gateway, undo)
    return gateway


def ensure_gateways(host: Rtnl, holder: Link, gateways: list[Cidr], *, force: bool, undo: BridgeUndo) -> None:
    """Give `holder` (the bridge, or a VLAN's gateway) the pods' gateway addresses.

    Raises CniError (7) where it has another one already, unless `force`; NetlinkError.
    """
    for gateway in gateways:
        _ensure_address(host, holder, gateway, force=force, undo=undo)


def forward(gateways: list[Cidr]) -> None:
    """Let the kernel forward packets of the gateways' families. Raises OSError."""
    for key in forwarding_keys(gateways):
        write_sysctl(key, "1")


def forwarding_keys(gateways: list[Cidr]) -> list[str]:
    """Return the kernel parameters by which packets of the gateways' families are forwarded."""
    return [_FORWARDING[version] for version in sorted({gateway.version for gateway in gateways})]


def vlan_gateway_name(config: BridgeConfig) -> str:
    """Return the name of the interface that holds the gateway addresses of the configuration's VLAN."""
    return f"{config.bridge}.{config.vlan}"


def _ensure_address(host: Rtnl, holder: Link, gateway: Cidr, *, force: bool, undo: BridgeUndo) -> None:
    for present in host.addresses(holder.index):
        if present.interface == gateway:
            return
        if present.interface.version != gateway.version:
            continue
        # Several IPv6 addresses may live together as long as their networks are apart; IPv4 takes one.
        if gateway.version != _IPV4 and not present.interface.network.overlaps(gateway.network):
            continue
        if not force:
            message = f'"{holder.name}" already has an IP address different from {gateway}: {present.interface}'
            raise CniError(Code.INVALID_CONFIG, message)
        undo.add(host.add_address, holder.index, present.interface, nodad=True, exist_ok=True)
        host.delete_address(holder.index, present.interface)
    back = undo.add(undo.unless_counted_on(host.delete_address, holder.index, gateway))
    # Without duplicate address detection: a pod's gateway must answer now, not in two seconds.
    if not host.add_address(holder.index, gateway, nodad=True, exist_ok=True):
        undo.forget(back)  # another ADD was faster
