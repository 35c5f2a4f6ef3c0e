"""A network namespace on the way of a packet: its links, routes, rules and kernel parameters, read when they matter."""

from errno import EINVAL, EXDEV
from typing import Final

from harness.snapshot.firewall import legacy_tables
from harness.views.namespaces import NamespaceView
from harness.views.nft_ruleset import Rules, read_rules
from harness.views.nft_values import Address, Packet
from harness.views.tunnels import Tunnel, read_tunnel
from netlink.bridge_ports import PortVlans
from netlink.link import Link
from netlink.namespace import Namespace, entered
from netlink.neighbours import NUD_PERMANENT, list_neighbours
from netlink.route_lookup import ChosenRoute, RoutedPacket, find_route
from netlink.routes import KernelRoute
from netlink.rtnl import Rtnl
from netlink.sysctl import read_sysctl
from skel.decoders import Cidr

_IPV4: Final = 4
_STRICT_OR_LOOSE: Final = {"1", "2"}
"""Values of rp_filter."""


class PathNamespace:
    """A network namespace on the way."""

    def __init__(self, view: NamespaceView, namespace: Namespace, rtnl: Rtnl) -> None:
        self.view = view
        self.label = view.label
        self.state = view.state
        self._namespace = namespace
        self._rtnl = rtnl
        self._rules: Rules | None = None
        self._unread = ""

    def link(self, name: str) -> Link:
        """Return a link that exists."""
        link = self.state.link(name)
        if link is None:
            raise LookupError(f"{self.label} has no link {name}")
        return link

    def rules(self) -> Rules:
        """Return the rules of nftables. Raises SnapshotError."""
        if self._rules is None:
            with entered(self._namespace):
                self._rules = read_rules() or Rules([])
                legacy = [family for family in ("ip", "ip6") if legacy_tables(family)]
                self._unread = f"{self.label} has rules of iptables-legacy" if legacy else ""
        return self._rules

    def unread(self) -> str:
        """Return what filters here and cannot be read; "" if nothing does."""
        self.rules()
        return self._unread

    def sysctl(self, key: str) -> str:
        """Return a kernel parameter, "" if it is missing: `net/ipv4/ip_forward`."""
        with entered(self._namespace):
            try:
                return read_sysctl(key)
            except OSError:
                return ""

    def route(self, packet: RoutedPacket) -> ChosenRoute:
        """Return the kernel's route for a packet. Raises NetlinkError."""
        return find_route(self._rtnl, packet)

    def refusal(self, packet: Packet, number: int, via: Link | None) -> str:
        """Return why the kernel has no route for a packet that came in by a link; `number` is its errno."""
        if via is None:
            return f"no route to {packet.destination}"
        filters = {self.sysctl(f"net/ipv4/conf/{each}/rp_filter") for each in ("all", via.name)}
        # Linux 6.18 answers with EINVAL for both.
        if number == EXDEV or (number == EINVAL and filters & _STRICT_OR_LOOSE and not self.has(packet.source)):
            return f"the reverse path filter of {via.name} refuses packets of {packet.source}"
        if number == EINVAL:
            return f"{packet.source} is no source for packets that come in by {via.name} (martian)"
        if packet.version == _IPV4 and self.sysctl(f"net/ipv4/conf/{via.name}/forwarding") == "0":
            return f"net.ipv4.conf.{via.name}.forwarding is 0"
        return f"no route to {packet.destination}"

    def whole_route(self, chosen: KernelRoute, destination: Address) -> KernelRoute | None:
        """Return the route that the kernel has chosen: its answer is about one address, and does not name the maker."""
        way = chosen.gateway, chosen.ifindex
        fitting = [
            each
            for each in self.state.routes
            if each.dst.version == destination.version
            and destination in each.dst
            and (each.gateway, each.ifindex) == way
        ]
        return max(fitting, key=lambda route: route.dst.prefixlen, default=None)

    def tunnel(self, link: Link) -> Tunnel | None:
        """Return what a VXLAN link has; None for another kind of link. Raises NetlinkError."""
        return read_tunnel(self._rtnl, link)

    def tunnel_end(self, vni: int, port: int) -> Link | None:
        """Return the VXLAN link that is up and takes the packets of a number and a UDP port."""
        for link in self.state.links:
            settings = link.details.vxlan
            if link.up and settings is not None and (settings.vni, settings.port) == (vni, port):
                return link
        return None

    def permanent_neighbour(self, link: Link, address: Address) -> str:
        """Return the hardware address that a permanent entry gives a neighbour, "" without one. Raises NetlinkError."""
        entries = list_neighbours(self._rtnl, 0, ifindex=link.ifindex)
        fixed = (each.lladdr for each in entries if each.dst == address and each.state & NUD_PERMANENT)
        return next(fixed, "")

    def vlans(self, port: Link) -> PortVlans:
        """Return the VLANs of a bridge's port, or of the bridge itself. Raises NetlinkError."""
        return self._rtnl.vlans(port.ifindex)

    def interfaces(self) -> list[Cidr]:
        """Return all addresses, with their prefixes."""
        return [each for addresses in self.state.addresses.values() for each in addresses]

    def has(self, address: Address) -> bool:
        """Tell whether an address is this namespace's own."""
        return any(each.ip == address for each in self.interfaces()) or address.is_loopback

    def address_type(self, address: Address) -> str | None:
        """Return the type of an address, as `fib daddr type` has it; None if it is not known."""
        if self.has(address):
            return "local"
        if address.is_multicast:
            return "multicast"
        networks = [each.network for each in self.interfaces()]
        last = [each.broadcast_address for each in networks if each.prefixlen < each.max_prefixlen - 1]
        if address.version == _IPV4 and (address in last or str(address) == "255.255.255.255"):
            return "broadcast"
        route = self.route(RoutedPacket(address)).route
        # Types other than unicast are words such as "blackhole"; no route is no type.
        return "unicast" if route is not None and route.kind == 1 else None

    def source_for(self, link: str, next_hop: Address) -> Address | None:
        """Return the address that masquerading gives to packets: inet_select_addr() in net/ipv4/devinet.c."""
        own = self.state.addresses.get(self.link(link).ifindex, [])
        mine = [each for each in own if each.version == next_hop.version and not each.is_link_local]
        near = [each for each in mine if next_hop in each.network]
        others = [
            each
            for each in self.interfaces()
            if each.version == next_hop.version and not (each.is_link_local or each.ip.is_loopback)
        ]
        return next((each.ip for each in (*near, *mine, *others)), None)
