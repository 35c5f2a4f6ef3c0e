"""The order in which a topology is drawn: the node's links, the ports and links above each, the pods behind them."""

from typing import NamedTuple

from harness.runtime.node_snapshot import NODE
from harness.views.topology import Topology, TopologyLink, TopologyPlace


class Twig(NamedTuple):
    """A link, and the links above it: a bridge's ports, the other end of a veth, VLANs and macvlans."""

    place: TopologyPlace
    link: TopologyLink
    is_entrance: bool
    """Whether it is the first link that leads into its place; the place is described beside it."""
    above: "tuple[Twig, ...]"


def twigs(topology: Topology) -> list[Twig]:
    """Return the node's lowest links, devices before bridges. A link with a way to the node comes once."""
    grown = _Grown(topology)
    return [grown.twig(NODE, link) for link in _lowest_first(topology.node) if (NODE, link.name) not in grown.links]


def unreached_places(topology: Topology, shown: list[Twig]) -> list[TopologyPlace]:
    """Return the places that no link of `shown` leads into."""
    reached = {NODE, *_entered(shown)}
    return [place for place in topology.places.values() if place.label not in reached]


class _Grown:
    """The links that have their place in the drawing already."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._entered = {NODE}
        self.links: set[tuple[str, str]] = set()

    def twig(self, label: str, link: TopologyLink) -> Twig:
        """Return a link with everything above it that has no place in the drawing yet."""
        self.links.add((label, link.name))
        is_entrance = label not in self._entered
        self._entered.add(label)
        place = self._topology.places[label]
        above = [(place, port) for port in place.links if port.bridge == link.name]
        above += self._topology.above(label, link.name)
        grown = tuple(
            self.twig(other.label, each) for other, each in above if (other.label, each.name) not in self.links
        )
        return Twig(place, link, is_entrance, grown)


def _lowest_first(node: TopologyPlace) -> list[TopologyLink]:
    """Return the links that others stand on first; a bridge's port comes with its bridge."""
    below = {link.peer.name for link in node.links if link.peer and link.peer.place == NODE}
    return sorted(node.links, key=lambda link: (bool(link.bridge), link.kind == "bridge", link.name not in below))


def _entered(shown: "list[Twig] | tuple[Twig, ...]") -> set[str]:
    return {label for twig in shown for label in (twig.place.label, *_entered(twig.above))}
