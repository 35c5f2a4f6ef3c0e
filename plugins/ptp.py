"""ptp: a veth or netkit pair routes between the pod and the host, without a bridge.

The host's end has each of the pod's gateways as an address of its own (/32, /128), and a route to each of the pod's
addresses. The pod reaches the gateways directly, and even the other addresses of its network by way of a gateway.
Without an IPAM plugin, the pair has no addresses: it carries whatever the two ends send.
"""

from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import TYPE_CHECKING
from plugins.attach.attachment import pod_ips
from plugins.attach.driver import Adding, Attached, Driver, interface_of
from plugins.attach.gateways import check_forwarding, forward, held_gateways, set_gateways
from plugins.attach.host_veth import check_host_end, delete_own, find_host_end, make_pair, wait_up
from plugins.attach.interface_config import PairConfig, random_mac
from plugins.attach.sequence import interface_plugin
from skel import Address, Cidr, CniError, Code, IPConfig, Result, with_length

if TYPE_CHECKING:
    from netlink.link import Link
    from netlink.request import RtnlRequest
    from netlink.rtnl import Rtnl
    from skel.steps import Steps

_RT_SCOPE_LINK, _RT_SCOPE_HOST = 253, 254


class PtpConfig(PairConfig):
    """Keys of the reference plugin: `mtu`, `ipMasq`, `ipMasqBackend`; of this one: all others."""


class PtpDriver(Driver[PtpConfig]):
    """A pair with addresses and routes on both ends."""

    port: "Link"
    """The host's end, from `make` on."""

    def make(self, at: Adding) -> int:
        """Make the pair."""
        from netlink.sysctl import set_sysctl

        name, ifname, mac = self.host_veth, self.args.ifname, random_mac()
        at.undo.add(delete_own, at.host, name, mac)
        self.port = make_pair(
            lambda kind: at.host.create_veth(
                name,
                kind=kind,
                peer_name=ifname,
                peer_namespace=at.netns,
                mac=mac,
                peer_mac=at.mac,
                mtu=self.config.mtu,
                alias=self.owner.label(),
            ),
            self.config.device_type,
            self.args.log,
            name=name,
            peer=ifname,
            namespace=at.netns,
        )
        # The kernel asks for the pod's MAC from the link-local address. That address needs no duplicate address
        # detection, since the pod is the only neighbour. It would delay the first packets by up to two seconds.
        for key in ("accept_dad", "accept_ra"):
            with suppress(OSError):  # /proc/sys is read-only, or the kernel has no IPv6
                set_sysctl(f"net/ipv6/conf/{name}/{key}", "0")
        at.result.interfaces.append(interface_of(self.port))
        return self.port.peer_ifindex

    def gateways(self, result: Result) -> list[Cidr]:
        """Complete the gateways; return them as the host's end has them, without their networks."""
        if not result.ips:
            raise CniError(Code.INVALID_CONFIG, f'ipam: "{self.config.ipam.type}" has returned no addresses')
        set_gateways(result.ips)
        return _held(result.ips)

    def pod_routes(self, result: Result, ifindex: int) -> "list[RtnlRequest[bool]]":
        """Return the routes to the gateways, then to the pod's networks by way of them.

        The kernel's own route to a network would have the pod look for its neighbours on the pair, where only the host
        answers.
        """
        from netlink.routes import add_route, new_route

        direct = [new_route(ifindex, gateway.network, scope=_RT_SCOPE_LINK) for gateway in _held(result.ips)]
        networks = {ip.address.network: ip.gateway for ip in result.ips}
        around = [
            new_route(ifindex, network, gateway=gateway)
            for network, gateway in networks.items()
            if network.prefixlen < network.max_prefixlen
        ]
        return [add_route(message) for message in (*direct, *around)]

    def after_ipam(self, at: Adding, gateways: list[Cidr]) -> None:
        """Give the host's end the gateway addresses, and the host the routes to the pod."""
        from netlink.addresses import add_address
        from netlink.routes import add_route

        ifindex = self.port.ifindex
        routes = _host_routes(ifindex, at.result.ips)
        addresses = [add_address(ifindex, gateway, nodad=True) for gateway in gateways]
        at.host.send(*addresses, *map(add_route, routes))

    def wait_reachable(self, at: Adding, pod: "Rtnl") -> None:
        """Return when the pair passes packets."""
        del pod
        wait_up(at.host, self.port)

    def verify(self, at: Attached) -> None:
        """Compare the host's end, its addresses and routes, and forwarding with the result."""
        port = check_host_end(at.host, at.result, at.inner)
        ips = self._routed_ips(at)
        gateways = _held(ips)
        present = {address.interface for address in at.host.addresses(port.ifindex)}
        for gateway in gateways:
            if gateway not in present:
                raise CniError(Code.INTERNAL, f'gateway address {gateway} is missing on "{port.name}"')
        for ip in ips:
            if not _is_routed(at.host, port, ip):
                raise CniError(Code.INTERNAL, f'route to {ip.address.ip} by "{port.name}" is missing')
        check_forwarding(gateways)

    def repair(self, at: Attached, steps: "Steps") -> None:
        """Put back the addresses and routes of the host's end, and forwarding."""
        ips = self._routed_ips(at)
        steps.take(_repair_host_end, at, ips)
        steps.take(forward, _held(ips))

    def _routed_ips(self, at: Attached) -> list[IPConfig]:
        """Return the pod's addresses that the host routes: a later plugin's have no gateway, and no route there."""
        return [ip for ip in pod_ips(at.result, self.args.ifname, self.args.netns) if ip.gateway is not None]


def _repair_host_end(at: Attached, ips: list[IPConfig]) -> None:
    from netlink.addresses import add_address
    from netlink.routes import add_route

    host, port = at.host, find_host_end(at.host, at.result, at.inner)
    if not port.up:
        host.set_up(port.ifindex)
    present = {address.interface for address in host.addresses(port.ifindex)}
    missing = [gateway for gateway in _held(ips) if gateway not in present]
    host.send(*(add_address(port.ifindex, each, nodad=True, exist_ok=True) for each in missing))
    lost = [ip for ip in ips if not _is_routed(host, port, ip)]
    host.send(*map(add_route, _host_routes(port.ifindex, lost)))


def _is_routed(host: "Rtnl", port: "Link", ip: IPConfig) -> bool:
    from plugins.attach.pod_interface import FAMILIES

    routes = host.routes(FAMILIES[ip.address.version], ifindex=port.ifindex)
    return _host_cidr(ip.address.ip).network in {route.dst for route in routes}


def _host_routes(ifindex: int, ips: list[IPConfig]) -> list[bytes]:
    """Return the host's routes to a pod's addresses, encoded."""
    from netlink.routes import new_route

    # As the reference has them: a route of this scope is no use as another route's gateway.
    return [new_route(ifindex, _host_cidr(ip.address.ip).network, scope=_RT_SCOPE_HOST) for ip in ips]


def _held(ips: list[IPConfig]) -> list[Cidr]:
    return list(dict.fromkeys(_host_cidr(gateway.ip) for gateway in held_gateways(ips)))


def _host_cidr(address: Address) -> Cidr:
    return with_length(address, address.max_prefixlen)


PLUGIN = interface_plugin("ptp", PtpConfig, PtpDriver)
