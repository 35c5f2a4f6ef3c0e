"""The topology as a graph for Graphviz (dot(1)) and for Mermaid."""

import json
from collections.abc import Iterator

from harness.output import printable
from harness.runtime.node_snapshot import NODE
from harness.views.topology import Topology, TopologyLink, TopologyPlace
from harness.views.topology_text import owner_words, place_words


def dot(topology: Topology) -> list[str]:
    """Return the lines of a graph in the language of Graphviz: a cluster for each place, a box for each link."""
    lines = ["graph topology {", "  rankdir=LR;", '  node [shape=box, fontname="sans-serif"];']
    numbers = _numbers(topology)
    for index, place in enumerate(topology.places.values()):
        lines += [f"  subgraph cluster{index} {{", f"    label={_quoted([place_words(place)])};"]
        lines += [f"    l{numbers[place.label, link.name]} [label={_quoted(_label(link))}];" for link in place.links]
        if described := _description(topology, place):
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
        if described := _description(topology, place):
            lines.append(f'    p{index}["{_entities(described)}"]')
        lines.append("  end")
    for one, other, kind in _edges(topology, numbers):
        lines.append(f"  l{one} {'-.-' if kind == 'below' else '---'} l{other}")
    return lines


def _numbers(topology: Topology) -> dict[tuple[str, str], int]:
    keys = [(place.label, link.name) for place in topology.places.values() for link in place.links]
    return {key: number for number, key in enumerate(keys)}


def _edges(topology: Topology, numbers: dict[tuple[str, str], int]) -> Iterator[tuple[int, int, str]]:
    """Yield each pair of connected links once, and whether one is the other's port, its end, or below it.

    Programs draw the first of a pair on the left: a bridge, a link with others on top, the node's end of a veth.
    """
    told: set[frozenset[int]] = set()
    for place in topology.places.values():
        for link in place.links:
            here = numbers[place.label, link.name]
            ends = {"port": (place.label, link.bridge), "end": tuple(link.peer or ())}
            for kind, there in ends.items():
                number = numbers.get(there) if len(there) == 2 else None  # noqa: PLR2004 -- a place and a name
                if number is None or frozenset({here, number}) in told:
                    continue
                told.add(frozenset({here, number}))
                if kind == "end" and link.kind not in {"veth", "netkit"}:
                    yield number, here, "below"
                elif kind == "end" and place.label == NODE:
                    yield here, number, kind
                else:
                    yield number, here, kind


def _label(link: TopologyLink) -> list[str]:
    owner = owner_words(link)
    state = "" if link.is_up else ", DOWN"
    return [link.name, f"{link.kind}, mtu {link.mtu}{state}", *link.addresses, *([owner] if owner else [])]


def _description(topology: Topology, place: TopologyPlace) -> list[str]:
    ports = dict.fromkeys(f"port {port}" for port in topology.ports_of(place))
    return [*(f"route {route}" for route in place.routes), *ports]


def _quoted(lines: list[str]) -> str:
    # Graphviz reads \n in a quoted string as the end of a line of the label.
    return '"' + r"\n".join(json.dumps(printable(line), ensure_ascii=False)[1:-1] for line in lines) + '"'


def _entities(lines: list[str]) -> str:
    signs = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "\n": " "}
    return "<br>".join("".join(signs.get(sign, sign) for sign in printable(line)) for line in lines)
