"""The network of a path: its namespaces, each read once, and the links that a frame reaches without a router."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple, TypeAlias

from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE
from harness.views.attachments import KnownAttachment
from harness.views.namespaces import read_namespaces
from harness.views.path_place import PathNamespace
from netlink.kinds import PAIRS
from netlink.link import Link
from netlink.namespace import open_namespace
from netlink.rtnl import Rtnl

_WITHOUT_PEER: Final = frozenset({"dummy", "ifb"})
_ON_TOP: Final = frozenset({"macvlan", "macvtap"})
_UNREAD: Final = frozenset({"ipvlan", "vlan", "bond", "team", "vrf", "macsec"})
"""Kinds of links whose way to the next link is not followed here."""


class PathNamespaces:
    """All places by label, the node first. Close it."""

    def __init__(
        self, node: Node, known: Sequence[KnownAttachment], *others: tuple[Node, Sequence[KnownAttachment]]
    ) -> None:
        """Read the node and everything that its links lead to; `others` as of `read_namespaces`.

        Raises NetlinkError, OSError.
        """
        self._stack = ExitStack()
        self._known = (node, known), *others
        self._may_read_on = bool(others)
        self.nodes = [each.name or NODE for each, _ in self._known] if others else [NODE]
        """The labels of the nodes."""
        self.places: dict[str, PathNamespace] = {}
        self._read(is_whole=False)

    def read_on(self) -> bool:
        """Read again, with the namespaces beside the way between nodes; False if there is nothing more to read.

        Raises NetlinkError, OSError.
        """
        if not self._may_read_on:
            return False
        self._may_read_on = False
        self.close()
        self._read(is_whole=True)
        return True

    def _read(self, *, is_whole: bool) -> None:
        (node, known), *others = self._known
        self.places = {}
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            for label, view in read_namespaces(node, known, *others, is_whole=is_whole).items():
                namespace = self._stack.enter_context(open_namespace(view.path))
                self.places[label] = PathNamespace(view, namespace, self._stack.enter_context(Rtnl(namespace)))
            on_failure.pop_all()

    def close(self) -> None:
        """Close all namespaces; a second call does nothing."""
        self._stack.close()

    def above(self, place: str, link: str) -> list[tuple[PathNamespace, Link]]:
        """Return macvlans, ipvlans and VLANs on top of a link, in all places."""
        return [
            (other, other.link(name))
            for other in self.places.values()
            for name, peer in other.view.peers.items()
            if peer == (place, link) and other.link(name).kind in {"macvlan", "macvtap", "ipvlan", "vlan"}
        ]


class BridgePass(NamedTuple):
    """A frame in a bridge. `iif` and `oif` are ports, "" for the bridge itself."""

    place: str
    bridge: str
    iif: str
    oif: str


class Crossed(NamedTuple):
    """A link that a frame leaves or comes in by; `mtu` in bytes."""

    place: str
    link: str
    mtu: int


Way: TypeAlias = tuple[BridgePass | Crossed, ...]


class ReachedLink(NamedTuple):
    """A link at which a frame can come in, and its way there."""

    place: PathNamespace
    link: Link
    way: Way


class Layer2Segment:
    """Where frames get to from one link. `exits` leave the known places; `blocked` and `unread` end on the way."""

    def __init__(self, namespaces: PathNamespaces, place: PathNamespace, link: Link) -> None:
        self._namespaces = namespaces
        self._seen: set[tuple[str, str, bool]] = set()
        self.exits: list[tuple[Crossed, Way]] = []
        self.blocked: list[str] = []
        self.unread: list[str] = []
        self.reached = list(self._send(place, link, ()))

    def _send(self, place: PathNamespace, link: Link, way: Way) -> Iterator[ReachedLink]:
        """Follow a frame that leaves by a link."""
        if not self._may_pass(place, link, sends=True):
            return
        way = (*way, Crossed(place.label, link.name, link.mtu))
        peer = place.view.peers.get(link.name)
        there = self._namespaces.places.get(peer.place) if peer is not None else None
        if link.kind == "bridge":
            yield from self._flood(place, link, "", way)
        elif link.kind in _UNREAD:
            self.unread.append(f"{link.name} in {place.label} is of kind {link.kind}")
        elif link.kind in _WITHOUT_PEER:
            self.blocked.append(f"{link.name} in {place.label} leads nowhere ({link.kind})")
        elif link.kind in PAIRS and peer is not None and there is not None:
            yield from self._receive(there, there.link(peer.name), way)
        elif link.kind in _ON_TOP and peer is not None and there is not None:
            yield from self._from_macvlan(link, there, there.link(peer.name), way)
        else:
            self.exits.append((Crossed(place.label, link.name, link.mtu), way))

    def _from_macvlan(self, link: Link, below: PathNamespace, lower: Link, way: Way) -> Iterator[ReachedLink]:
        mode = link.details.macvlan_mode
        if not lower.up:
            self.blocked.append(f"{lower.name} in {below.label} is down")
            return
        if mode == "bridge":
            # Frames do not get to the link below itself: drivers/net/macvlan.c, macvlan_queue_xmit().
            yield from self._macvlans_on(below, lower, way, besides=link)
        elif mode not in {"private", "vepa", "passthru"}:
            self.unread.append(f"{link.name} is a macvlan in mode {mode}")
        yield from self._send(below, lower, way)

    def _macvlans_on(
        self, below: PathNamespace, lower: Link, way: Way, besides: Link | None = None
    ) -> Iterator[ReachedLink]:
        for place, link in self._namespaces.above(below.label, lower.name):
            if link.kind in _ON_TOP and link is not besides:
                if link.up:
                    yield ReachedLink(place, link, (*way, Crossed(place.label, link.name, link.mtu)))
                else:
                    self.blocked.append(f"{link.name} in {place.label} is down")

    def _receive(self, place: PathNamespace, link: Link, way: Way) -> Iterator[ReachedLink]:
        """Follow a frame that comes in by a link."""
        if not self._may_pass(place, link, sends=False):
            return
        way = (*way, Crossed(place.label, link.name, link.mtu))
        master = next((each for each in place.state.links if each.ifindex == link.master), None)
        if master is None or master.kind == "vrf":
            yield ReachedLink(place, link, way)
            yield from self._macvlans_on(place, link, way)
        elif master.kind != "bridge":
            self.unread.append(f"{link.name} in {place.label} is part of {master.name}, of kind {master.kind}")
        elif not master.up:
            self.blocked.append(f"bridge {master.name} in {place.label} is down")
        else:
            if self._vlan_meets(place, master, link, master):
                yield ReachedLink(place, master, (*way, BridgePass(place.label, master.name, link.name, "")))
                yield from self._macvlans_on(place, master, way)
            yield from self._flood(place, master, link.name, way)

    def _flood(self, place: PathNamespace, bridge: Link, iif: str, way: Way) -> Iterator[ReachedLink]:
        """Follow a frame out of all ports of a bridge that may have it."""
        incoming = place.link(iif) if iif else None
        for port in place.state.links:
            if port.master != bridge.ifindex or (port.name == iif and not port.details.hairpin):
                continue
            if incoming is not None and incoming.details.isolated and port.details.isolated:
                self.blocked.append(f"{iif} and {port.name} are isolated ports of {bridge.name}")
                continue
            if self._vlan_meets(place, bridge, incoming or bridge, port):
                passed = BridgePass(place.label, bridge.name, iif, port.name)
                yield from self._send(place, port, (*way, passed))

    def _vlan_meets(self, place: PathNamespace, bridge: Link, incoming: Link, outgoing: Link) -> bool:
        """Tell whether a frame without a tag passes between two ports of a bridge, and leaves without a tag."""
        if not bridge.details.vlan_filtering:
            return True
        one, other = place.vlans(incoming), place.vlans(outgoing)
        if not one.native or one.native not in other.passed:
            self.blocked.append(f"{incoming.name} and {outgoing.name} have no VLAN of {bridge.name} in common")
            return False
        if one.native != other.native:
            self.unread.append(f"{outgoing.name} may carry VLAN {one.native} of {bridge.name} with a tag")
            return False
        return True

    def _may_pass(self, place: PathNamespace, link: Link, *, sends: bool) -> bool:
        """Tell whether a link is up, and the frame has not passed it before in this direction."""
        key = place.label, link.name, sends
        if key in self._seen:
            return False
        self._seen.add(key)
        if not link.up:
            self.blocked.append(f"{link.name} in {place.label} is down")
        return link.up
