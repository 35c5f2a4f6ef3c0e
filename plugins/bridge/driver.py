"""The bridge plugin's steps of the attach sequence, in the order in which ADD takes them."""

from fast_stdlib.typing import TYPE_CHECKING
from plugins.attach.attachment import pod_ips
from plugins.attach.driver import Adding, Attached, Driver, interface_of
from plugins.attach.gateways import add_default_routes, forward, held_gateways, set_gateways
from plugins.attach.host_veth import delete_own, find_host_end, is_of_reference, wait_up
from plugins.attach.interface_config import random_mac
from plugins.bridge.config import BridgeConfig
from skel import Args, Cidr, CniError, Code, Result

if TYPE_CHECKING:
    from collections.abc import Collection

    from firewall.owner import Owner
    from netlink.path_mtu import PathMtu
    from netlink.rtnl import Rtnl
    from plugins.bridge.host import BridgeUndo, Connected
    from skel.steps import Steps


class BridgeDriver(Driver[BridgeConfig]):
    """A pair between the pod and a bridge, which is made if it is missing."""

    undo: "BridgeUndo"
    """From `open_undo` on: that of ADD, or of REPAIR, which takes nothing back."""
    connected: "Connected"
    """The bridge and the pod's port as they were last seen, from `make` on."""

    def __init__(self, args: Args[BridgeConfig]) -> None:
        super().__init__(args)
        self.dad = self.config.enable_dad
        self.leaves_down = self.config.disable_container_interface

    def path_mtu(self, at: Adding | Attached) -> "PathMtu | None":
        """Return the MTU of an existing bridge that is not the pods' gateway, and otherwise of the host's way out.

        Such a bridge has the overhead taken off already, by the ADD that made it.
        """
        from netlink.path_mtu import link_mtu

        bridge = None if self.config.gateway else at.host.link(self.config.bridge)
        if bridge is None:
            return super().path_mtu(at)
        return link_mtu(bridge.mtu, bridge.name)

    def open_undo(self, host: "Rtnl") -> "BridgeUndo":
        """Return an Undo that keeps changes of the bridge that other pods need by now."""
        from plugins.bridge.host import BridgeUndo

        log, interruption = self.args.log, self.args.interruption
        self.undo = BridgeUndo(log, host, self.config.bridge, self.host_veth, interruption)
        return self.undo

    def make(self, at: Adding) -> int:
        """Make the bridge if it is missing, and the pair; put the port into its VLANs and check its source MACs."""
        from plugins.bridge.host import connect, ensure_bridge, tag

        config, host, undo, name = self.config, at.host, self.undo, self.host_veth
        bridge = ensure_bridge(host, config, undo)
        port_mac = random_mac(above=bridge.mac)
        undo.add(delete_own, host, name, port_mac)
        self.connected = connect(
            host,
            bridge,
            config,
            undo,
            name=name,
            port_mac=port_mac,
            peer=self.args.ifname,
            namespace=at.netns,
            mac=at.mac,
            alias=self.owner.label(),
        )
        bridge, port, _ = self.connected
        tag(host, port, config, config.trunk_vlans())
        if config.mac_spoof_check:
            from firewall import spoofcheck

            undo.add(spoofcheck.remove, self.tables, self.owner, name)
            spoofcheck.apply(self.tables, self.owner, name, at.mac)
        at.result.interfaces += [interface_of(bridge), interface_of(port)]
        return port.peer_ifindex

    def gateways(self, result: Result) -> list[Cidr]:
        """Complete the gateways with `isGateway`, the default routes with `isDefaultGateway`."""
        gateways = set_gateways(result.ips) if self.config.gateway else []
        if self.config.is_default_gateway:
            add_default_routes(result)
        return gateways

    def after_ipam(self, at: Adding, gateways: list[Cidr]) -> None:
        """Give the gateway addresses to the bridge, or to the interface of the configuration's VLAN."""
        from netlink.link import find_link
        from plugins.bridge.gateways import ensure_gateways, ensure_vlan_gateway

        config, host, undo = self.config, at.host, self.undo
        bridge, port, held = self.connected
        holder, present = bridge, held
        if gateways and config.vlan:
            from netlink.namespace import current_namespace

            with current_namespace() as here:
                holder = ensure_vlan_gateway(host, bridge, config, here, undo)
            present = host.addresses(holder.ifindex)
            at.result.interfaces.append(interface_of(holder))
        # With the last change on the host: the port may be up by then.
        look = find_link(port.ifindex)
        ensure_gateways(host, holder, gateways, present, force=config.force_address, undo=undo, look=look)
        self.connected = self.connected._replace(port=look.answer or port)

    def wait_reachable(self, at: Adding, pod: "Rtnl") -> None:
        """Return when the port forwards. Raises CniError (11) if it does not within 2.5 s, or has lost its bridge."""
        del pod
        bridge, port, _ = self.connected
        if wait_up(at.host, port).master != bridge.ifindex:
            message = f'"{port.name}" is no port of "{bridge.name}" any more: the bridge was removed meanwhile'
            raise CniError(Code.TRY_AGAIN_LATER, message)

    def unmake(self, steps: "Steps") -> None:
        """Delete the pair and the check of its source MACs. The bridge stays: other pods may come."""
        super().unmake(steps)
        if self.config.mac_spoof_check:
            from firewall import spoofcheck

            steps.take(lambda: spoofcheck.remove(self.tables, self.owner, self.host_veth))

    def verify(self, at: Attached) -> None:
        """Compare the bridge, the port, the gateway addresses and the check of source MACs with the result."""
        from plugins.bridge.check import check_host

        port = check_host(self.config, at, self._held_gateways(at))
        if self.config.mac_spoof_check:
            from firewall import spoofcheck

            if not spoofcheck.holds(self.tables, self.owner, port.name, at.inner.mac):
                raise CniError(Code.INTERNAL, f'source addresses of "{port.name}" are not checked')

    def stale(self, valid: "Collection[Owner]", steps: "Steps") -> None:
        """Remove checks of source MACs, also with `macspoofchk: false`: it may have been true before."""
        from firewall import spoofcheck

        steps.take(spoofcheck.collect, self.tables, self.config.name, valid)

    def repair(self, at: Attached, steps: "Steps") -> None:
        """Put back the bridge, its port and gateway addresses, forwarding, and the check of source MACs."""
        from plugins.bridge.repair import repair_links

        gateways = self._held_gateways(at)
        # Outside of a `with` block an Undo takes nothing back: half a repair is better than none.
        steps.take(lambda: repair_links(self.config, at, gateways, self.open_undo(at.host)))
        if gateways:
            steps.take(forward, gateways)
        if self.config.mac_spoof_check:
            steps.take(self._repair_spoof_check, at)

    def _held_gateways(self, at: Attached) -> list[Cidr]:
        """Return the gateways of the pod's addresses that the host holds."""
        if not (self.config.ipam.type and self.config.gateway):
            return []
        return held_gateways(pod_ips(at.result, self.args.ifname, self.args.netns))

    def _repair_spoof_check(self, at: Attached) -> None:
        from firewall import spoofcheck

        port = find_host_end(at.host, at.result, at.inner).name
        mac = next((each.mac for each in at.result.interfaces if each.sandbox and each.name == self.args.ifname), "")
        by_reference = is_of_reference(self.args, at.host)
        # The MAC that ADD gave: a pod that has taken another since must not pass.
        spoofcheck.repair(self.tables, self.owner, port, mac or at.inner.mac, by_reference=by_reference)

    def status(self) -> None:
        """Raise CniError (50) if the bridge's name is another link's, or the bridge lacks VLAN filtering."""
        from plugins.bridge.host import check_available

        check_available(self.config)
