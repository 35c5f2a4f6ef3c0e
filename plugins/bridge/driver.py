"""The bridge plugin's steps of the attach sequence, in the order in which ADD takes them."""

from fast_stdlib.typing import TYPE_CHECKING
from plugins.attach.attachment import pod_ips
from plugins.attach.driver import Driver, Made, interface_of
from plugins.attach.gateways import add_default_routes, forward, held_gateways, set_gateways
from plugins.attach.interface_config import random_mac
from plugins.bridge.config import BridgeConfig
from skel import Args, Cidr, CniError, Code

if TYPE_CHECKING:
    from collections.abc import Collection

    from firewall.owner import Owner
    from netlink.addresses import Address
    from netlink.link import Link
    from netlink.path_mtu import PathMtu
    from netlink.request import RtnlRequest
    from plugins.bridge.host import BridgeUndo
    from skel.steps import Steps


class BridgeDriver(Driver[BridgeConfig]):
    """A pair between the pod and a bridge, which is made if it is missing."""

    undo: "BridgeUndo"
    bridge: "Link"
    port: "Link"
    """The host's end of the pair."""
    held: "list[Address]"
    """The bridge's addresses before this ADD adds any."""
    seen: "RtnlRequest[Link | None] | None" = None
    """The port, asked for together with the last change on the host: it may be up by then."""

    def __init__(self, args: Args[BridgeConfig]) -> None:
        super().__init__(args)
        self.dad = self.config.enable_dad
        self.leaves_down = self.config.disable_container_interface

    def path_mtu(self) -> "PathMtu | None":
        """Return the MTU of an existing bridge that is not the pods' gateway, and otherwise of the host's way out.

        Such a bridge has the overhead taken off already, by the ADD that made it.
        """
        from netlink.path_mtu import link_mtu

        bridge = None if self.config.gateway else self.host.link(self.config.bridge)
        if bridge is None:
            return super().path_mtu()
        return link_mtu(bridge.mtu, bridge.name)

    def open_undo(self) -> "BridgeUndo":
        """Return an Undo that keeps changes of the bridge that other pods need by now."""
        from plugins.bridge.host import BridgeUndo

        log, interruption = self.args.log, self.args.interruption
        return BridgeUndo(log, self.host, self.config.bridge, self.host_veth, interruption)

    def make(self) -> Made:
        """Make the bridge if it is missing, and the pair; put the port into its VLANs and check its source MACs."""
        from plugins.attach.veth_pair import delete_own, make_pair
        from plugins.bridge.host import connect, ensure_bridge, tag

        config, host, name = self.config, self.host, self.host_veth
        bridge = ensure_bridge(host, config, self.undo)
        port_mac = random_mac(above=bridge.mac)
        self.undo.add(delete_own, host, name, port_mac)
        self.bridge, self.port, self.held = make_pair(
            lambda kind: connect(
                host,
                bridge,
                config,
                self.undo,
                name=name,
                port_mac=port_mac,
                peer=self.args.ifname,
                namespace=self.netns,
                mac=self.mac,
                alias=self.owner.label(),
                kind=kind,
            ),
            config.device_type,
            self.args.log,
        )
        tag(host, self.port, config, config.trunk_vlans())
        if config.mac_spoof_check:
            from firewall import spoofcheck

            self.undo.add(spoofcheck.remove, self.tables, self.owner, name)
            spoofcheck.apply(self.tables, self.owner, name, self.mac)
        return Made([interface_of(self.bridge), interface_of(self.port)], self.port.peer_ifindex)

    def gateways(self) -> list[Cidr]:
        """Complete the gateways with `isGateway`, the default routes with `isDefaultGateway`."""
        gateways = set_gateways(self.result.ips) if self.config.gateway else []
        if self.config.is_default_gateway:
            add_default_routes(self.result)
        return gateways

    def after_ipam(self, gateways: list[Cidr]) -> None:
        """Give the gateway addresses to the bridge, or to the interface of the configuration's VLAN."""
        from netlink.link import find_link
        from plugins.bridge.gateways import ensure_gateways, ensure_vlan_gateway

        config, host, holder = self.config, self.host, self.bridge
        if gateways and config.vlan:
            from netlink.namespace import current_namespace

            with current_namespace() as here:
                holder = ensure_vlan_gateway(host, self.bridge, config, here, self.undo)
            self.result.interfaces.append(interface_of(holder))
        present = self.held if holder is self.bridge else None
        self.seen = find_link(self.port.ifindex)
        ensure_gateways(
            host, holder, gateways, force=config.force_address, undo=self.undo, present=present, look=self.seen
        )

    def wait_reachable(self) -> None:
        """Return when the port forwards."""
        from plugins.bridge.host import wait_port_up

        wait_port_up(self.host, self.port, self.bridge, self.seen.answer if self.seen else None)

    def unmake(self, steps: "Steps") -> None:
        """Delete the pair and the check of its source MACs. The bridge stays: other pods may come."""
        super().unmake(steps)
        if self.config.mac_spoof_check:
            from firewall import spoofcheck

            steps.take(lambda: spoofcheck.remove(self.tables, self.owner, self.host_veth))

    def verify(self) -> None:
        """Compare the bridge, the port, the gateway addresses and the check of source MACs with the result."""
        from plugins.bridge.check import check_bridge, check_gateways, check_port

        config, host, result = self.config, self.host, self.result
        bridge = check_bridge(host, config, result)
        port = check_port(host, config, result, self.inner, bridge)
        if config.ipam.type and config.gateway:
            ips = pod_ips(result, self.args.ifname, self.args.netns)
            check_gateways(host, config, bridge, held_gateways(ips))
        if config.mac_spoof_check:
            from firewall import spoofcheck

            if not spoofcheck.holds(self.tables, self.owner, port.name, self.inner.mac):
                raise CniError(Code.INTERNAL, f'source addresses of "{port.name}" are not checked')

    def stale(self, valid: "Collection[Owner]", steps: "Steps") -> None:
        """Remove checks of source MACs, also with `macspoofchk: false`: it may have been true before."""
        from firewall import spoofcheck

        steps.take(spoofcheck.collect, self.tables, self.config.name, valid)

    def repair(self, steps: "Steps") -> None:
        """Put back the bridge, its port and gateway addresses, forwarding, and the check of source MACs."""
        config = self.config
        ips = pod_ips(self.result, self.args.ifname, self.args.netns)
        gateways = held_gateways(ips) if config.ipam.type and config.gateway else []
        steps.take(self._repair_links, gateways)
        if gateways:
            steps.take(forward, gateways)
        if config.mac_spoof_check:
            steps.take(self._repair_spoof_check)

    def _repair_links(self, gateways: list[Cidr]) -> None:
        from plugins.bridge.repair import repair_gateways, repair_port

        bridge = repair_port(self.host, self.config, self.result, self.inner, self.undo)
        repair_gateways(self.host, self.config, bridge, gateways, self.undo)

    def _repair_spoof_check(self) -> None:
        from firewall import spoofcheck
        from plugins.attach.host_veth import is_of_reference
        from plugins.attach.veth_pair import find_host_end

        port = find_host_end(self.host, self.result, self.inner).name
        mac = next((each.mac for each in self.result.interfaces if each.sandbox and each.name == self.args.ifname), "")
        by_reference = is_of_reference(self.args, self.host)
        # The MAC that ADD gave: a pod that has taken another since must not pass.
        spoofcheck.repair(self.tables, self.owner, port, mac or self.inner.mac, by_reference=by_reference)

    def status(self) -> None:
        """Raise CniError (50) if the bridge's name is another link's, or the bridge lacks VLAN filtering."""
        from plugins.bridge.host import check_available

        check_available(self.config)
