"""The way of a packet from a pod to an address: routes, bridge ports, veths, tunnels, rules, MTU, and where it ends.

It follows the first packet of a connection. The kernel answers for routes; rules are evaluated here. What is not read
makes the verdict "unsure".
"""

from ipaddress import ip_address
from typing import Final, NamedTuple, NoReturn

from harness.views.nft_evaluation import MatchedRule
from harness.views.nft_values import Address, Packet
from harness.views.path_network import BridgePass, Crossed, Layer2Segment, PathNamespaces, Way
from harness.views.path_packet import RTN_LOCAL, End, Hop, PacketOnWay, Verdict
from harness.views.path_place import PathNamespace
from harness.views.tunnels import Tunnel
from netlink.kinds import VXLAN_OVERHEAD
from netlink.link import Link

_MOST_PLACES: Final = 32  # a packet that is routed in circles ends there
_IPV4: Final = 4
_LOOPBACK: Final = "lo"
_UDP: Final = 17
_VLAN_HEADER: Final = 4
"""Bytes that links take beyond their MTU, except from their own host: is_skb_forwardable() in net/core/dev.c."""


class PathResult(NamedTuple):
    """The way of a packet. `mtu` is the smallest on the way, in bytes; 0 if the packet crosses no link."""

    hops: tuple[Hop, ...]
    verdict: Verdict
    place: str
    """Where it ends."""
    reason: str
    packet: Packet
    """With the addresses that it has at the end."""
    mtu: int
    mtu_at: str
    rules: tuple[tuple[str, MatchedRule], ...]
    """Place and rule, in the order in which the packet meets them."""


def find_path(namespaces: PathNamespaces, origin: PathNamespace, packet: Packet, size: int = 0) -> PathResult:
    """Follow a packet that a process in `origin` sends; its source is the kernel's choice if it is unspecified.

    `size` is that of the IP packet in bytes, which no router may fragment; 0 for one that fits everywhere.
    Raises SnapshotError, NetlinkError.
    """
    walk = _Walk(namespaces, packet, size)
    end = walk.follow(origin)
    if end.verdict in {"leaves", "unsure"} and namespaces.read_on():
        walk = _Walk(namespaces, packet, size)
        end = walk.follow(namespaces.places[origin.label])
    walk.tell(end.place, "end", f"{end.verdict}: {end.reason}")
    mtu, mtu_at = min(walk.mtus, default=(0, ""))
    return PathResult(tuple(walk.hops), end.verdict, end.place, end.reason, walk.packet, mtu, mtu_at, tuple(walk.rules))


class _Walk(PacketOnWay):
    """A packet that goes from place to place."""

    def __init__(
        self, namespaces: PathNamespaces, packet: Packet, size: int, outer_of: PacketOnWay | None = None
    ) -> None:
        """Prepare a packet, or with `outer_of` that of a tunnel."""
        super().__init__(packet, size, outer_of)
        self._namespaces = namespaces
        self._tunnels: frozenset[tuple[str, str]] = frozenset()
        """The tunnels, by place and link, whose outer packet this is."""

    def follow(self, origin: PathNamespace, depth: int = 0) -> End:
        """Send the packet from a process, and return its end."""
        try:
            self._start(origin, depth)
        except End as end:
            return end
        raise AssertionError("a path has an end")

    def _start(self, place: PathNamespace, depth: int) -> None:
        """Send the packet from a process. Raises End."""
        source = None if self.packet.source.is_unspecified else self.packet.source
        route, chosen = self.route(place, 0, source)
        if source is None:
            source = chosen if chosen is not None else self.packet.destination
            self.packet = self.packet._replace(source=source)
        self.first_source = source
        before = self.packet
        self.hook(place, "output", oif=self.out(place, route))
        if (self.packet.destination, self.packet.mark) != (before.destination, before.mark):
            route, _ = self.route(place, 0, self.packet.source)
        oif = self.out(place, route)
        self.say_route(place, route, oif)
        next_hop = self.next_hop(route)
        self.hook(place, "postrouting", oif=oif, next_hop=next_hop)
        if route.kind == RTN_LOCAL:
            # The kernel keeps route, connection and mark of a packet that it loops back.
            for hook in ("prerouting", "input"):
                self.hook(place, hook, iif=_LOOPBACK)
            raise self.delivered(place)
        self._send(place, place.link(oif), next_hop, depth)

    def _arrive(self, place: PathNamespace, link: Link, depth: int) -> None:
        """Take the packet in by a link: to a process, or to the next link. Raises End."""
        if depth > _MOST_PLACES:
            raise End("dropped", place.label, f"it has passed {_MOST_PLACES} places: a loop")
        before = self.packet.destination
        self.hook(place, "prerouting", iif=link.name)
        route, _ = self.route(place, link.ifindex, self.packet.source, via=link)
        if route.kind == RTN_LOCAL:
            self.hook(place, "input", iif=link.name)
            raise self.delivered(place)
        is_off = self.packet.version != _IPV4 and place.sysctl("net/ipv6/conf/all/forwarding") == "0"
        if is_off and place.sysctl(f"net/ipv6/conf/{link.name}/force_forwarding") != "1":  # Linux 6.17
            raise End("dropped", place.label, "net.ipv6.conf.all.forwarding is 0")
        oif, next_hop = self.out(place, route), self.next_hop(route)
        if oif == link.name and before != self.packet.destination and self._is_bridge_filtered(place, link):
            # br_nf_pre_routing_finish(): the frame stays in the bridge, with the other hooks of br_netfilter.
            raise End("unsure", place.label, f"br_netfilter changes the destination of a frame in {link.name}")
        self.say_route(place, route, oif)
        self.hook(place, "forward", iif=link.name, oif=oif)
        self.hook(place, "postrouting", iif=link.name, oif=oif, next_hop=next_hop)
        self._send(place, place.link(oif), next_hop, depth)

    def _send(self, place: PathNamespace, link: Link, next_hop: Address, depth: int) -> None:
        """Bring the packet to the next host. Raises End."""
        if (tunnel := place.tunnel(link)) is not None:
            self._send_by_tunnel(place, tunnel, next_hop, depth)
        segment = Layer2Segment(self._namespaces, place, link)
        reached = [each for each in segment.reached if each.place.has(next_hop) and each.place is not place]
        places = {each.place.label for each in reached}
        if len(places) > 1:
            raise End("unsure", place.label, f"{' and '.join(sorted(places))} have {next_hop}")
        on_links = [each.place.state.addresses.get(each.link.ifindex, []) for each in reached]
        pairs = zip(reached, on_links, strict=True)
        own = [each for each, its in pairs if any(address.ip == next_hop for address in its)] or reached
        if len(own) > 1:
            names = " and ".join(sorted(each.link.name for each in own))
            raise End("unsure", place.label, f"{next_hop} can be reached by {names}")
        if own:
            (taken,) = own
            mac = place.permanent_neighbour(link, next_hop)
            if mac and mac != taken.link.mac:
                known = f"{next_hop} is {mac} by a permanent neighbour entry of {link.name}"
                raise End("dropped", place.label, f"{known}, and {taken.link.mac} in {taken.place.label}")
            self._cross(taken.way)
            if taken.place is not place:
                self.forget_connection(mark=0)
            self._arrive(taken.place, taken.link, depth + 1)
        if segment.unread:
            raise End("unsure", place.label, "; ".join(segment.unread))
        why = f" ({'; '.join(dict.fromkeys(segment.blocked))})" if segment.blocked else ""
        if segment.exits:
            crossed, way = segment.exits[0]
            if len(segment.exits) > 1:
                raise End("unsure", place.label, f"{next_hop} may be behind each of several links{why}")
            self._cross(way)
            raise End("leaves", crossed.place, f"by {crossed.link} to {next_hop}")
        raise End("dropped", place.label, f"no host behind {link.name} has {next_hop}{why}")

    def _send_by_tunnel(self, place: PathNamespace, tunnel: Tunnel, next_hop: Address, depth: int) -> NoReturn:
        """Bring the packet to the tunnel's other end, inside of an outer packet, and let it arrive there."""
        link, settings = tunnel.link, tunnel.settings
        if not link.up:
            raise End("dropped", place.label, f"{link.name} in {place.label} is down")
        if (place.label, link.name) in self._tunnels:
            raise End("dropped", place.label, f"the route to {self.packet.destination} leads into {link.name} again")
        if lack := tunnel.lack(next_hop):
            raise End("unsure" if tunnel.asks else "dropped", place.label, lack)
        self._cross((Crossed(place.label, link.name, link.mtu),))
        mac = tunnel.neighbours[next_hop]
        end = tunnel.ends[mac]
        number = f"VNI {settings.vni} and UDP port {settings.port}"
        start = f" of {settings.local}" if settings.local is not None else ""
        self.tell(place.label, "tunnel", f"{next_hop} is {mac}, behind {end} (fdb): into a packet{start} with {number}")
        overhead = VXLAN_OVERHEAD[end.version]
        source = settings.local if settings.local is not None else ip_address(bytes(end.max_prefixlen // 8))
        packet = Packet(source, end, _UDP, settings.port, mark=self.packet.mark)
        outer = _Walk(self._namespaces, packet, self.size and self.size + overhead, outer_of=self)
        outer._tunnels = self._tunnels | {(place.label, link.name)}
        ended = outer.follow(place, depth + 1)
        self.mtus += [(mtu - overhead, f"{at}, less {overhead} for the tunnel") for mtu, at in outer.mtus]
        if ended.verdict != "delivered":
            raise End(ended.verdict, ended.place, f"{ended.reason} (packet of the tunnel {link.name})")
        there = self._namespaces.places[ended.place]
        taking = there.tunnel_end(settings.vni, settings.port)
        if taking is None:
            raise End("dropped", there.label, f"no VXLAN link that is up has {number}")
        self.meet(there, taking.name)
        if taking.master:
            raise End("unsure", there.label, f"{taking.name} is a port of a bridge")
        if taking.mac != mac:
            raise End("dropped", there.label, f"{taking.name} has the MAC {taking.mac}, and the frame is for {mac}")
        self.tell(there.label, "tunnel", f"out of the packet by {taking.name}")
        self.forget_connection(outer.packet.mark)
        self._arrive(there, taking, depth + 1)
        raise AssertionError("an arrival has an end")

    def _cross(self, way: Way) -> None:
        spare = 0
        for each in way:
            if isinstance(each, Crossed):
                self.fit(each.place, each.link, each.mtu, spare)
                self.mtus.append((each.mtu, f"{each.link} in {each.place}"))
                self.tell(each.place, "link", f"{each.link}, mtu {each.mtu}")
                self.meet(self._namespaces.places[each.place], each.link)
                spare = _VLAN_HEADER
            else:
                self._bridge(self._namespaces.places[each.place], each)

    def _bridge(self, place: PathNamespace, passed: BridgePass) -> None:
        """Take the packet through the rules of a bridge."""
        ways = f"{passed.iif or 'the node'} to {passed.oif or 'the node'}"
        self.tell(place.label, "bridge", f"{passed.bridge}: {ways}")
        if passed.iif:
            self.hook(place, "prerouting", iif=passed.iif, family="bridge")
        if not passed.oif:
            self.hook(place, "input", iif=passed.iif, family="bridge")
            return
        if not passed.iif:
            self.hook(place, "output", oif=passed.oif, family="bridge")
        else:
            is_called = self._is_bridge_filtered(place, place.link(passed.bridge))
            if is_called:
                before = self.packet.destination
                self.hook(place, "prerouting", iif=passed.bridge)
                if self.packet.destination != before:
                    raise End("unsure", place.label, f"a rule changes the destination of a frame in {passed.bridge}")
            self.hook(place, "forward", iif=passed.iif, oif=passed.oif, family="bridge")
            if is_called:
                self.hook(place, "forward", iif=passed.bridge, oif=passed.bridge)
                self.hook(place, "postrouting", oif=passed.bridge)
        self.hook(place, "postrouting", oif=passed.oif, family="bridge")

    def _is_bridge_filtered(self, place: PathNamespace, link: Link) -> bool:
        """Tell whether br_netfilter takes a bridge's frames through the hooks of IP."""
        calls = "iptables" if self.packet.version == _IPV4 else "ip6tables"
        return link.kind == "bridge" and place.sysctl(f"net/bridge/bridge-nf-call-{calls}") == "1"
