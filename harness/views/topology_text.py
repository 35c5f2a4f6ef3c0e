"""The topology as a tree of text."""

from collections.abc import Iterator, Sequence

from harness.output import printable
from harness.runtime.node_snapshot import NODE, THIS_HOST
from harness.views.topology import Topology, TopologyLink, TopologyPlace
from harness.views.topology_tree import Twig, twigs, unreached_places


def tree(topology: Topology) -> list[str]:
    """Return the lines of a tree: the node, its links, the ports of bridges, and the pods that they lead to."""
    grown = twigs(topology)
    node = topology.node
    blocks = [*(_block(topology, twig, NODE) for twig in grown), *([f"route {route}"] for route in node.routes)]
    lines = [place_words(node), *_indented(blocks)]
    for place in unreached_places(topology, grown):
        inner = [*(link_words(link) for link in place.links), *_routes_and_ports(topology, place)]
        lines += [place_words(place), *_indented([[line] for line in inner])]
    return [printable(line) for line in lines]


def link_words(link: TopologyLink) -> str:
    """Return a link in words: its name, kind, addresses and owner."""
    said = [link.name, link.kind, *link.addresses, f"mtu {link.mtu}"]
    said += [] if link.is_up else ["DOWN"]
    if link.peer is not None and not link.peer.place:
        said.append("other end in an unknown namespace")
    owner = owner_words(link)
    return "  ".join([*said, *([f"[{owner}]"] if owner else [])])


def owner_words(link: TopologyLink) -> str:
    """Return the owner of a link in words; an empty string if nothing names one."""
    owner = link.owner
    if owner is None:
        return ""
    match owner.kind:
        case "attachment":
            return f"{owner.network}/{owner.name}/{owner.ifname}"
        case "network":
            return f"network {owner.name}"
        case "program":
            return f"looks like {owner.name}"
        case _:
            return f"container {owner.name} of network {owner.network}, unknown to every runtime"


def place_words(place: TopologyPlace) -> str:
    """Return a place in words: its label, and the pod if the label is another name."""
    if place.label == NODE:
        return NODE if place.netns == THIS_HOST else f"{NODE}  {place.netns}"
    if not place.pods:
        return f"{place.label} ({place.netns}, no known pod)"
    named = [pod for pod in place.pods if not pod.endswith(place.label) and not pod.startswith(place.label)]
    return place.label + (f" ({', '.join(named)})" if named else "")


def _block(topology: Topology, twig: Twig, parent: str) -> list[str]:
    is_elsewhere = twig.place.label != parent
    title = link_words(twig.link) + (f" in {place_words(twig.place)}" if is_elsewhere else "")
    blocks = [_block(topology, above, twig.place.label) for above in twig.above]
    if twig.is_entrance:
        # Links that lead nowhere, such as a dummy, come with the first way into the place.
        alone = [link_words(link) for link in twig.place.links if link.peer is None and link is not twig.link]
        blocks += [[line] for line in (*alone, *_routes_and_ports(topology, twig.place))]
    return [title, *_indented(blocks)]


def _routes_and_ports(topology: Topology, place: TopologyPlace) -> Iterator[str]:
    yield from (f"route {route}" for route in place.routes)
    # A mapping for IPv4 and IPv6 has two entries in the firewall, with the same words.
    yield from dict.fromkeys(f"port {port}  [{port.made_by}]" for port in topology.ports_of(place))


def _indented(blocks: Sequence[Sequence[str]]) -> list[str]:
    lines = []
    for number, block in enumerate(blocks):
        is_last = number == len(blocks) - 1
        for line, text in enumerate(block):
            lead = ("└ " if is_last else "├ ") if line == 0 else ("  " if is_last else "│ ")
            lines.append(f"{lead}{text}")
    return lines
