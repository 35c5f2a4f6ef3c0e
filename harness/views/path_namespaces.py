"""The network namespaces that a path leads through, each read once: links, addresses, rules, kernel parameters."""

from contextlib import ExitStack
from typing import Final

from harness.runtime.namespace_state import NamespaceState
from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE
from harness.snapshot.firewall import legacy_tables
from harness.views.attachments import KnownAttachment
from harness.views.namespaces import NamespaceView, read_namespaces
from harness.views.nft_ruleset import Rules, read_rules
from harness.views.nft_values import Address
from netlink.bridge_ports import PortVlans
from netlink.link import Link
from netlink.namespace import Namespace, entered, open_namespace
from netlink.route_lookup import ChosenRoute, RoutedPacket, find_route
from netlink.rtnl import Rtnl
from netlink.sysctl import read_sysctl
from skel.decoders import Cidr

_IPV4: Final = 4


class PathNamespace:
    """A network namespace on the way."""

    def __init__(self, view: NamespaceView, namespace: Namespace, rtnl: Rtnl) -> None:
        self.view = view
        self._namespace = namespace
        self._rtnl = rtnl
        self._rules: Rules | None = None
        self._unread = ""

    @property
    def label(self) -> str:
        """The name: "node", a pod's name."""
        return self.view.label

    @property
    def state(self) -> NamespaceState:
        """Links and addresses."""
        return self.view.state

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
        others = [each for each in self.interfaces() if each.version == next_hop.version and not _is_narrow(each)]
        return next((each.ip for each in (*near, *mine, *others)), None)


class PathNamespaces:
    """All places by label, the node first. Close it."""

    def __init__(self, node: Node, known: list[KnownAttachment]) -> None:
        """Read the node and everything that its links lead to. Raises NetlinkError, OSError."""
        self._stack = ExitStack()
        self.places: dict[str, PathNamespace] = {}
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            for label, view in read_namespaces(node, known).items():
                namespace = self._stack.enter_context(open_namespace(view.path))
                self.places[label] = PathNamespace(view, namespace, self._stack.enter_context(Rtnl(namespace)))
            on_failure.pop_all()

    def close(self) -> None:
        """Close all namespaces; a second call does nothing."""
        self._stack.close()

    @property
    def node(self) -> PathNamespace:
        """The node."""
        return self.places[NODE]

    def above(self, place: str, link: str) -> list[tuple[PathNamespace, Link]]:
        """Return macvlans, ipvlans and VLANs on top of a link, in all places."""
        return [
            (other, other.link(name))
            for other in self.places.values()
            for name, peer in other.view.peers.items()
            if peer == (place, link) and other.link(name).kind in {"macvlan", "macvtap", "ipvlan", "vlan"}
        ]


def _is_narrow(each: Cidr) -> bool:
    return each.is_link_local or each.ip.is_loopback
