"""A packet on its way: the steps that it has taken, and what routes, rules and MTUs do to it.

`End` is raised where its way is over.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

from harness.views.nft_evaluation import MatchedRule, evaluate
from harness.views.nft_values import Address, HookPoint, Packet
from harness.views.path_place import PathNamespace
from harness.views.tunnels import AGENT_PROTOCOL
from netlink.link import Link
from netlink.route_lookup import ChosenRoute, RoutedPacket
from netlink.routes import MAKERS, KernelRoute

Verdict: TypeAlias = Literal["delivered", "leaves", "dropped", "rejected", "unsure"]

_IPV4: Final = 4
RTN_UNICAST, RTN_LOCAL = 1, 2  # linux/rtnetlink.h
_UNTOLD_MAKERS: Final = (0, 2, 3)
"""Unknown, the kernel, and a program that has not named itself."""


class Hop(NamedTuple):
    """One step: in which place, what happens, and in which words."""

    place: str
    step: str
    """"route", "link", "bridge", "tunnel", "rules", "translation" or "end"."""
    what: str


class End(Exception):  # noqa: N818 -- no error: the packet's way is over
    """The end of a packet's way."""

    def __init__(self, verdict: Verdict, place: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict: Verdict = verdict
        self.place = place
        self.reason = reason


class PacketOnWay:
    """A packet, and all that it has met."""

    def __init__(self, packet: Packet, size: int, outer_of: "PacketOnWay | None" = None) -> None:
        """`size` in bytes, 0 for one that fits everywhere.

        With `outer_of`, it is a tunnel's packet, and its steps and rules are told among those of the inner one.
        """
        self.packet = packet
        self.size = size
        self.hops: list[Hop] = outer_of.hops if outer_of is not None else []
        self.rules: list[tuple[str, MatchedRule]] = outer_of.rules if outer_of is not None else []
        """Place and rule."""
        self.mtus: list[tuple[int, str]] = []
        """Bytes, and the link or the route."""
        self.first_source: Address | None = None
        self._is_outer = outer_of is not None

    def tell(self, place: str, step: str, what: str) -> None:
        """Add a step."""
        self.hops.append(Hop(place, step, what))

    def delivered(self, place: PathNamespace) -> End:
        """Return the good end; if the source was translated, it names what the other side sees."""
        seen = f", which sees {self.packet.source} in place of {self.first_source}"
        is_other = self.packet.source != self.first_source
        return End("delivered", place.label, f"to {_socket(self.packet)} in {place.label}{seen if is_other else ''}")

    def forget_connection(self, mark: int) -> None:
        """Take off what another namespace, or the far end of a tunnel, does not know: skb_scrub_packet()."""
        self.packet = self.packet._replace(
            mark=mark, connection_mark=0, status=frozenset(), translated=frozenset(), original=None
        )

    def fit(self, place: str, what: str, mtu: int, spare: int = 0) -> None:
        """Raise End if the packet is larger than an MTU, with `spare` bytes beyond it."""
        if self.size <= mtu + spare:
            return
        larger = f"the packet has {self.size} bytes, and {what} in {place} takes {mtu}"
        if self._is_outer:
            # The outer packet may be fragmented, but not by every host and bridge.
            raise End("unsure", place, f"{larger}: it comes in fragments or not at all")
        raise End("dropped", place, larger + ("" if spare else ": fragmentation needed"))

    def meet(self, place: PathNamespace, link: str) -> None:
        """Raise End if a link has rules that are not read."""
        if link in place.rules().devices:
            raise End("unsure", place.label, f"{link} has chains of the family netdev")

    def hook(
        self,
        place: PathNamespace,
        hook: str,
        *,
        iif: str = "",
        oif: str = "",
        next_hop: Address | None = None,
        family: str = "inet",
    ) -> None:
        """Take the packet through the rules of a hook. Raises End if they stop it."""
        if place.unread() and family == "inet":
            raise End("unsure", place.label, place.unread())
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
            raise End(verdict, place.label, reason)

    def route(
        self, place: PathNamespace, iif: int, source: Address | None, via: Link | None = None
    ) -> tuple[KernelRoute, Address | None]:
        """Return the kernel's route, and the source that it gives to a packet of this host. Raises End."""
        asked = RoutedPacket(
            self.packet.destination, source, iif, self.packet.mark, self.packet.protocol, self.packet.port or 0
        )
        found: ChosenRoute = place.route(asked)
        if found.route is None:
            raise End("dropped", place.label, place.refusal(self.packet, found.refusal, via))
        if found.route.kind not in {RTN_UNICAST, RTN_LOCAL}:
            raise End("unsure", place.label, f"{self.packet.destination} is no address of one host")
        return found.route, found.source

    def say_route(self, place: PathNamespace, route: KernelRoute, oif: str) -> None:
        """Tell a route, with its maker if it has named itself. Raises End if the packet is larger than its MTU."""
        via = f" via {route.gateway}" if route.gateway is not None else ""
        whole = place.whole_route(route, self.packet.destination)
        maker = ""
        if whole is not None and whole.protocol not in _UNTOLD_MAKERS:
            name = "the agent" if whole.protocol == AGENT_PROTOCOL else MAKERS.get(whole.protocol, "")
            maker = f": {whole.dst} proto {whole.protocol}{f' ({name})' if name else ''}"
        self.tell(place.label, "route", f"{self.packet.destination}{via} dev {oif}{maker}")
        if route.mtu:
            what = f"route to {self.packet.destination}"
            self.fit(place.label, what, route.mtu)
            self.mtus.append((route.mtu, f"{what} in {place.label}"))

    def next_hop(self, route: KernelRoute) -> Address:
        """Return the address of the next host."""
        return route.gateway if route.gateway is not None else self.packet.destination

    def out(self, place: PathNamespace, route: KernelRoute) -> str:
        """Return the name of a route's link. Raises End if it is gone."""
        name = place.state.name(route.ifindex)
        if not name:
            raise End("dropped", place.label, f"no route to {self.packet.destination}")
        return name


def _ends(packet: Packet) -> str:
    return f"{packet.source} to {_socket(packet)}"


def _socket(packet: Packet) -> str:
    if packet.port is None:
        return str(packet.destination)
    host = str(packet.destination)
    return f"{host if packet.version == _IPV4 else f'[{host}]'}:{packet.port}"
