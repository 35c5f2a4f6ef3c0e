"""The way of a packet from a pod to an address: routes, bridge ports, veths, rules, MTU, and where it ends.

It follows the first packet of a connection. The kernel answers for routes; rules are evaluated here. What is not read
makes the verdict "unsure".
"""

from errno import EINVAL, EXDEV
from typing import Final, Literal, NamedTuple, TypeAlias

from harness.views.nft_evaluation import MatchedRule, evaluate
from harness.views.nft_values import Address, HookPoint, Packet
from harness.views.path_network import BridgePass, Crossed, Layer2Segment, PathNamespace, PathNamespaces, Way
from netlink.link import Link
from netlink.route_lookup import ChosenRoute, RoutedPacket
from netlink.routes import KernelRoute

Verdict: TypeAlias = Literal["delivered", "leaves", "dropped", "rejected", "unsure"]

_MOST_PLACES: Final = 32  # a packet that is routed in circles ends there
_IPV4: Final = 4
_RTN_UNICAST, _RTN_LOCAL = 1, 2  # linux/rtnetlink.h
_LOOPBACK: Final = "lo"


class Hop(NamedTuple):
    """One step: in which place, what happens, and in which words."""

    place: str
    step: str
    """"route", "link", "bridge", "rules", "translation" or "end"."""
    what: str


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


class _End(Exception):  # noqa: N818 -- no error: the packet's way is over
    def __init__(self, verdict: Verdict, place: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict: Verdict = verdict
        self.place = place
        self.reason = reason


def find_path(namespaces: PathNamespaces, origin: PathNamespace, packet: Packet) -> PathResult:
    """Follow a packet that a process in `origin` sends; its source is the kernel's choice if it is unspecified.

    Raises SnapshotError, NetlinkError.
    """
    walk = _Walk(namespaces, packet)
    try:
        walk.start(origin)
    except _End as end:
        walk.tell(end.place, "end", f"{end.verdict}: {end.reason}")
        mtu, mtu_at = min(walk.mtus, default=(0, ""))
        return PathResult(
            tuple(walk.hops), end.verdict, end.place, end.reason, walk.packet, mtu, mtu_at, tuple(walk.rules)
        )
    raise AssertionError("a path has an end")


class _Walk:
    """A packet on its way."""

    def __init__(self, namespaces: PathNamespaces, packet: Packet) -> None:
        self._namespaces = namespaces
        self.packet = packet
        self.hops: list[Hop] = []
        self.mtus: list[tuple[int, str]] = []
        self.rules: list[tuple[str, MatchedRule]] = []

    def tell(self, place: str, step: str, what: str) -> None:
        """Add a step."""
        self.hops.append(Hop(place, step, what))

    def start(self, place: PathNamespace) -> None:
        """Send the packet from a process. Raises _End."""
        source = None if self.packet.source.is_unspecified else self.packet.source
        route, chosen = self._route(place, 0, source)
        if source is None:
            source = chosen if chosen is not None else self.packet.destination
            self.packet = self.packet._replace(source=source)
        before = self.packet
        self._hook(place, "output", oif=self._out(place, route))
        if (self.packet.destination, self.packet.mark) != (before.destination, before.mark):
            route, _ = self._route(place, 0, self.packet.source)
        oif = self._out(place, route)
        self._say_route(place, route, oif)
        next_hop = self._next_hop(route)
        self._hook(place, "postrouting", oif=oif, next_hop=next_hop)
        if route.kind == _RTN_LOCAL:
            # The kernel keeps route, connection and mark of a packet that it loops back.
            for hook in ("prerouting", "input"):
                self._hook(place, hook, iif=_LOOPBACK)
            raise _End("delivered", place.label, f"to {_socket(self.packet)} in {place.label}")
        self._send(place, place.link(oif), next_hop, 0)

    def _arrive(self, place: PathNamespace, link: Link, depth: int) -> None:
        """Take the packet in by a link: to a process, or to the next link. Raises _End."""
        if depth > _MOST_PLACES:
            raise _End("dropped", place.label, f"it has passed {_MOST_PLACES} places: a loop")
        before = self.packet.destination
        self._hook(place, "prerouting", iif=link.name)
        route, _ = self._route(place, link.ifindex, self.packet.source, via=link)
        if route.kind == _RTN_LOCAL:
            self._hook(place, "input", iif=link.name)
            raise _End("delivered", place.label, f"to {_socket(self.packet)} in {place.label}")
        if self.packet.version != _IPV4 and place.sysctl("net/ipv6/conf/all/forwarding") == "0":
            raise _End("dropped", place.label, "net.ipv6.conf.all.forwarding is 0")
        oif, next_hop = self._out(place, route), self._next_hop(route)
        if oif == link.name and before != self.packet.destination and self._is_bridge_filtered(place, link):
            # br_nf_pre_routing_finish(): the frame stays in the bridge, with the other hooks of br_netfilter.
            raise _End("unsure", place.label, f"br_netfilter changes the destination of a frame in {link.name}")
        self._say_route(place, route, oif)
        self._hook(place, "forward", iif=link.name, oif=oif)
        self._hook(place, "postrouting", iif=link.name, oif=oif, next_hop=next_hop)
        self._send(place, place.link(oif), next_hop, depth)

    def _send(self, place: PathNamespace, link: Link, next_hop: Address, depth: int) -> None:
        """Bring the packet to the next host. Raises _End."""
        segment = Layer2Segment(self._namespaces, place, link)
        reached = [each for each in segment.reached if each.place.has(next_hop) and each.place is not place]
        places = {each.place.label for each in reached}
        if len(places) > 1:
            raise _End("unsure", place.label, f"{' and '.join(sorted(places))} have {next_hop}")
        on_links = [each.place.state.addresses.get(each.link.ifindex, []) for each in reached]
        pairs = zip(reached, on_links, strict=True)
        own = [each for each, its in pairs if any(address.ip == next_hop for address in its)] or reached
        if len(own) > 1:
            names = " and ".join(sorted(each.link.name for each in own))
            raise _End("unsure", place.label, f"{next_hop} can be reached by {names}")
        if own:
            (taken,) = own
            self._cross(taken.way)
            if taken.place is not place:
                # skb_scrub_packet(): no connection, no mark.
                self.packet = self.packet._replace(
                    mark=0, connection_mark=0, status=frozenset(), translated=frozenset(), original=None
                )
            self._arrive(taken.place, taken.link, depth + 1)
        if segment.unread:
            raise _End("unsure", place.label, "; ".join(segment.unread))
        if segment.exits:
            crossed, way = segment.exits[0]
            if len(segment.exits) > 1:
                raise _End("unsure", place.label, f"{next_hop} may be behind each of several links")
            self._cross(way)
            raise _End("leaves", crossed.place, f"by {crossed.link} to {next_hop}")
        why = f" ({'; '.join(dict.fromkeys(segment.blocked))})" if segment.blocked else ""
        raise _End("dropped", place.label, f"no host behind {link.name} has {next_hop}{why}")

    def _cross(self, way: Way) -> None:
        for each in way:
            if isinstance(each, Crossed):
                self.mtus.append((each.mtu, f"{each.link} in {each.place}"))
                self.tell(each.place, "link", f"{each.link}, mtu {each.mtu}")
                if each.link in self._namespaces.places[each.place].rules().devices:
                    raise _End("unsure", each.place, f"{each.link} has chains of the family netdev")
            else:
                self._bridge(self._namespaces.places[each.place], each)

    def _bridge(self, place: PathNamespace, passed: BridgePass) -> None:
        """Take the packet through the rules of a bridge."""
        ways = f"{passed.iif or 'the node'} to {passed.oif or 'the node'}"
        self.tell(place.label, "bridge", f"{passed.bridge}: {ways}")
        if passed.iif:
            self._hook(place, "prerouting", iif=passed.iif, family="bridge")
        if not passed.oif:
            self._hook(place, "input", iif=passed.iif, family="bridge")
            return
        if not passed.iif:
            self._hook(place, "output", oif=passed.oif, family="bridge")
        else:
            is_called = self._is_bridge_filtered(place, place.link(passed.bridge))
            if is_called:
                before = self.packet.destination
                self._hook(place, "prerouting", iif=passed.bridge)
                if self.packet.destination != before:
                    raise _End("unsure", place.label, f"a rule changes the destination of a frame in {passed.bridge}")
            self._hook(place, "forward", iif=passed.iif, oif=passed.oif, family="bridge")
            if is_called:
                self._hook(place, "forward", iif=passed.bridge, oif=passed.bridge)
                self._hook(place, "postrouting", oif=passed.bridge)
        self._hook(place, "postrouting", oif=passed.oif, family="bridge")

    def _is_bridge_filtered(self, place: PathNamespace, link: Link) -> bool:
        """Tell whether br_netfilter takes a bridge's frames through the hooks of IP."""
        calls = "iptables" if self.packet.version == _IPV4 else "ip6tables"
        return link.kind == "bridge" and place.sysctl(f"net/bridge/bridge-nf-call-{calls}") == "1"

    def _hook(
        self,
        place: PathNamespace,
        hook: str,
        *,
        iif: str = "",
        oif: str = "",
        next_hop: Address | None = None,
        family: str = "inet",
    ) -> None:
        """Take the packet through the rules of a hook. Raises _End if they stop it."""
        if place.unread() and family == "inet":
            raise _End("unsure", place.label, place.unread())
        masquerade = place.source_for(oif, next_hop) if next_hop is not None and hook == "postrouting" else None
        point = HookPoint(hook, iif, oif, place.address_type, masquerade, family)
        before = self.packet
        decision = evaluate(place.rules(), point, before)
        self.packet = decision.packet
        for rule in decision.matched:
            self.rules.append((place.label, rule))
            if rule.handle or rule.verdict == "drop":
                elements = f"; {', '.join(map(str, rule.elements))}" if rule.elements else ""
                self.tell(place.label, "rules", f"{hook}: {rule.chain}: {rule.rule}{elements}")
        now = self.packet
        if (before.source, before.destination, before.port) != (now.source, now.destination, now.port):
            self.tell(place.label, "translation", f"{_ends(before)} becomes {_ends(self.packet)}")
        if decision.verdict != "accept":
            last = decision.matched[-1] if decision.matched else None
            reason = decision.reason or (f"{last.chain}: {last.rule}" if last else hook)
            verdict: Verdict = {"drop": "dropped", "reject": "rejected"}.get(decision.verdict, "unsure")  # type: ignore[assignment]
            raise _End(verdict, place.label, reason)

    def _route(
        self, place: PathNamespace, iif: int, source: Address | None, via: Link | None = None
    ) -> tuple[KernelRoute, Address | None]:
        asked = RoutedPacket(
            self.packet.destination, source, iif, self.packet.mark, self.packet.protocol, self.packet.port or 0
        )
        found: ChosenRoute = place.route(asked)
        if found.route is None:
            raise _End("dropped", place.label, self._refusal(place, found.refusal, via))
        if found.route.kind not in {_RTN_UNICAST, _RTN_LOCAL}:
            raise _End("unsure", place.label, f"{self.packet.destination} is no address of one host")
        return found.route, found.source

    def _refusal(self, place: PathNamespace, number: int, via: Link | None) -> str:
        if via is None:
            return f"no route to {self.packet.destination}"
        filters = {place.sysctl(f"net/ipv4/conf/{each}/rp_filter") for each in ("all", via.name)}
        is_own = place.has(self.packet.source)
        # Linux 6.18 answers with EINVAL for both.
        if number == EXDEV or (number == EINVAL and filters & {"1", "2"} and not is_own):
            return f"the reverse path filter of {via.name} refuses packets of {self.packet.source}"
        if number == EINVAL:
            return f"{self.packet.source} is no source for packets that come in by {via.name} (martian)"
        if self.packet.version == _IPV4 and place.sysctl(f"net/ipv4/conf/{via.name}/forwarding") == "0":
            return f"net.ipv4.conf.{via.name}.forwarding is 0"
        return f"no route to {self.packet.destination}"

    def _say_route(self, place: PathNamespace, route: KernelRoute, oif: str) -> None:
        via = f" via {route.gateway}" if route.gateway is not None else ""
        self.tell(place.label, "route", f"{self.packet.destination}{via} dev {oif}")
        if route.mtu:
            self.mtus.append((route.mtu, f"route to {self.packet.destination} in {place.label}"))

    def _next_hop(self, route: KernelRoute) -> Address:
        return route.gateway if route.gateway is not None else self.packet.destination

    def _out(self, place: PathNamespace, route: KernelRoute) -> str:
        name = place.state.name(route.ifindex)
        if not name:
            raise _End("dropped", place.label, f"no route to {self.packet.destination}")
        return name


def _ends(packet: Packet) -> str:
    return f"{packet.source} to {_socket(packet)}"


def _socket(packet: Packet) -> str:
    if packet.port is None:
        return str(packet.destination)
    host = str(packet.destination)
    return f"{host if packet.version == _IPV4 else f'[{host}]'}:{packet.port}"
