"""The topology as text: a tree for people, graphs for Graphviz (dot(1)) and Mermaid; and the order of all drawings."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness.output import printable
from harness.runtime.node_snapshot import NODE, THIS_HOST
from harness.views.topology import Topology, TopologyLink, TopologyPlace


class Branch(NamedTuple):
    """A link, and the links above it: a bridge's ports, the other end of a veth, VLANs and macvlans."""

    place: TopologyPlace
    link: TopologyLink
    is_entrance: bool
    """Whether it is the first link that leads into its place; the place is described beside it."""
    above: "tuple[Branch, ...]"


def branches_of(topology: Topology) -> list[Branch]:
    """Return the node's lowest links, devices before bridges. A link with a way to the node comes once."""
    drawn: set[tuple[str, str]] = set()
    entered = {NODE}

    def branch(label: str, link: TopologyLink) -> Branch:
        """Return a link with everything above it that has no place in the drawing yet."""
        drawn.add((label, link.name))
        is_entrance = label not in entered
        entered.add(label)
        place = topology.places[label]
        above = [(place, port) for port in place.links if port.bridge == link.name]
        above += topology.above(label, link.name)
        above_it = tuple(branch(other.label, each) for other, each in above if (other.label, each.name) not in drawn)
        return Branch(place, link, is_entrance, above_it)

    # Links that others stand on come first; a bridge's port comes with its bridge.
    below = {link.peer.name for link in topology.node.links if link.peer and link.peer.place == NODE}
    links = sorted(
        topology.node.links, key=lambda link: (bool(link.bridge), link.kind == "bridge", link.name not in below)
    )
    return [branch(NODE, link) for link in links if (NODE, link.name) not in drawn]


def unreached_places(topology: Topology, shown: list[Branch]) -> list[TopologyPlace]:
    """Return the places that no link of `shown` leads into."""
    reached = {NODE, *_entered(shown)}
    return [place for place in topology.places.values() if place.label not in reached]


def _entered(shown: "list[Branch] | tuple[Branch, ...]") -> set[str]:
    return {label for branch in shown for label in (branch.place.label, *_entered(branch.above))}


def tree(topology: Topology) -> list[str]:
    """Return the lines of a tree: the node, its links, the ports of bridges, and the pods that they lead to."""
    branches = branches_of(topology)
    node = topology.node
    blocks = [*(_block(topology, branch, NODE) for branch in branches), *([f"route {route}"] for route in node.routes)]
    lines = [place_words(node), *_indented(blocks)]
    for place in unreached_places(topology, branches):
        inner = [*(link_words(link) for link in place.links), *inside_words(topology, place, makers=True)]
        lines += [place_words(place), *_indented([[line] for line in inner])]
    return [printable(line) for line in lines]


def link_words(link: TopologyLink) -> str:
    """Return a link in words: its name, kind, addresses and owner."""
    words = [link.name, link.kind, *link.addresses, f"mtu {link.mtu}"]
    words += [] if link.is_up else ["DOWN"]
    if link.peer is not None and not link.peer.place:
        words.append("other end in an unknown namespace")
    owner = owner_words(link)
    return "  ".join([*words, *([f"[{owner}]"] if owner else [])])


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


def _block(topology: Topology, branch: Branch, parent: str) -> list[str]:
    is_elsewhere = branch.place.label != parent
    title = link_words(branch.link) + (f" in {place_words(branch.place)}" if is_elsewhere else "")
    blocks = [_block(topology, above, branch.place.label) for above in branch.above]
    if branch.is_entrance:
        # Links that lead nowhere, such as a dummy, come with the first way into the place.
        alone = [link_words(link) for link in branch.place.links if link.peer is None and link is not branch.link]
        blocks += [[line] for line in (*alone, *inside_words(topology, branch.place, makers=True))]
    return [title, *_indented(blocks)]


def inside_words(topology: Topology, place: TopologyPlace, *, makers: bool = False) -> list[str]:
    """Return the routes and port mappings of a place in words; with `makers`, with the table or chain of a mapping."""
    # A mapping for IPv4 and IPv6 has two entries in the firewall, with the same words.
    ports = (f"port {port}{f'  [{port.made_by}]' if makers else ''}" for port in topology.ports_of(place))
    return [*(f"route {route}" for route in place.routes), *dict.fromkeys(ports)]


def _indented(blocks: Sequence[Sequence[str]]) -> list[str]:
    lines = []
    for number, block in enumerate(blocks):
        is_last = number == len(blocks) - 1
        for line, text in enumerate(block):
            lead = ("└ " if is_last else "├ ") if line == 0 else ("  " if is_last else "│ ")
            lines.append(f"{lead}{text}")
    return lines


def dot(topology: Topology) -> list[str]:
    """Return the lines of a graph in the language of Graphviz: a cluster for each place, a box for each link."""
    lines = ["graph topology {", "  rankdir=LR;", '  node [shape=box, fontname="sans-serif"];']
    numbers = _numbers(topology)
    for index, place in enumerate(topology.places.values()):
        lines += [f"  subgraph cluster{index} {{", f"    label={_quoted([place_words(place)])};"]
        lines += [f"    l{numbers[place.label, link.name]} [label={_quoted(_label(link))}];" for link in place.links]
        if described := inside_words(topology, place):
            lines.append(f"    p{index} [shape=note, label={_quoted(described)}];")
        lines.append("  }")
    for one, other, kind in _edges(topology, numbers):
        lines.append(f"  l{one} -- l{other}{' [style=dashed]' if kind == 'below' else ''};")
    return [*lines, "}"]


def mermaid(topology: Topology) -> list[str]:
    """Return the lines of a flowchart of Mermaid: a subgraph for each place, a box for each link."""
    lines = ["flowchart LR"]
    numbers = _numbers(topology)
    for index, place in enumerate(topology.places.values()):
        lines.append(f'  subgraph s{index}["{_entities([place_words(place)])}"]')
        lines += [f'    l{numbers[place.label, link.name]}["{_entities(_label(link))}"]' for link in place.links]
        if described := inside_words(topology, place):
            lines.append(f'    p{index}["{_entities(described)}"]')
        lines.append("  end")
    for one, other, kind in _edges(topology, numbers):
        lines.append(f"  l{one} {'-.-' if kind == 'below' else '---'} l{other}")
    return lines


def _numbers(topology: Topology) -> dict[tuple[str, str], int]:
    keys = [(place.label, link.name) for place in topology.places.values() for link in place.links]
    return {key: number for number, key in enumerate(keys)}


def _edges(topology: Topology, numbers: dict[tuple[str, str], int]) -> Iterator[tuple[int, int, str]]:
    return ((numbers[one], numbers[other], kind) for one, other, kind in connections(topology))


def connections(topology: Topology) -> Iterator[tuple[tuple[str, str], tuple[str, str], str]]:
    """Yield each pair of connected links once, each by place and name; and the kind of the connection.

    It is "port", "end" for the ends of a veth, or "below". Drawings have the first of a pair on the left: a bridge, a
    link with others on top, the node's end of a veth.
    """
    known = {(place.label, link.name) for place in topology.places.values() for link in place.links}
    drawn: set[frozenset[tuple[str, str]]] = set()
    for place in topology.places.values():
        for link in place.links:
            here = (place.label, link.name)
            ends = {"port": (place.label, link.bridge)}
            if link.peer is not None:
                ends["end"] = (link.peer.place, link.peer.name)
            for kind, there in ends.items():
                if there not in known or frozenset({here, there}) in drawn:
                    continue
                drawn.add(frozenset({here, there}))
                if kind == "end" and link.kind not in {"veth", "netkit"}:
                    yield there, here, "below"
                elif kind == "end" and place.label == NODE:
                    yield here, there, kind
                else:
                    yield there, here, kind


def _label(link: TopologyLink) -> list[str]:
    owner = owner_words(link)
    state = "" if link.is_up else ", DOWN"
    return [link.name, f"{link.kind}, mtu {link.mtu}{state}", *link.addresses, *([owner] if owner else [])]


def _quoted(lines: list[str]) -> str:
    # Graphviz reads \n in a quoted string as the end of a line of the label.
    return '"' + r"\n".join(json.dumps(printable(line), ensure_ascii=False)[1:-1] for line in lines) + '"'


def _entities(lines: list[str]) -> str:
    signs = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "\n": " "}
    return "<br>".join("".join(signs.get(sign, sign) for sign in printable(line)) for line in lines)
