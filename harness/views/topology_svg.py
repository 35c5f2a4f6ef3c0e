"""The topology as a drawing (SVG 1.1): a column for each step from the node's links to the pods."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from harness.output import printable
from harness.runtime.node_snapshot import NODE
from harness.views.topology import Topology, TopologyLink
from harness.views.topology_text import Branch, branches_of, inside_words, owner_words, place_words, unreached_places

# Pixels.
_CHARACTER, _LINE, _PADDING = 7.3, 17, 10
_GAP_X, _GAP_Y, _MARGIN = 56, 14, 16
_LONGEST: Final = 46
"""Characters in a line of a box; the title of the box has the whole text."""
_STYLE: Final = """
.topology { color-scheme: light dark; --paper: #ffffff; --ink: #1f2430; --soft: #5b6472; --node: #e8eefc;
  --pod: #e5f5ea; --fault: #b3261e; --line: #7a8494; background: var(--paper) }
@media (prefers-color-scheme: dark) {
  .topology { --paper: #14171d; --ink: #e8ebf0; --soft: #a9b2c0; --node: #24304a; --pod: #1f3a2b;
    --fault: #ff8a80; --line: #7f8a9b }
}
.topology text { font: 12px ui-monospace, monospace; fill: var(--soft) }
.topology text.name { font-weight: 600; fill: var(--ink) }
.topology text.down { fill: var(--fault) }
.topology rect { stroke: var(--line); fill: var(--node) }
.topology rect.pod { fill: var(--pod) }
.topology rect.paper { stroke: none; fill: var(--paper) }
.topology path { stroke: var(--line); fill: none }
"""


class _Box(NamedTuple):
    """A box; x and y are its upper left corner."""

    x: float
    y: float
    width: float
    height: float
    lines: Sequence[tuple[str, str]]
    """Lines of text, each with its class."""
    is_pod: bool


def svg(topology: Topology) -> list[str]:
    """Return the lines of the drawing. It is the same for the same topology, and loads nothing.

    Its style has a scope of its own, so that the drawing can be a part of a page.
    """
    drawing = _Drawing(topology)
    width, height = drawing.size()
    title = f"Topology of the {place_words(topology.node)}"
    return [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="topology" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}">'
        ),
        f"<title>{_text(title)}</title>",
        f"<style>{_STYLE}</style>",
        '<rect class="paper" width="100%" height="100%"/>',
        *drawing.edges,
        *(line for box in drawing.boxes for line in _drawn(box)),
        "</svg>",
    ]


class _Drawing:
    """The boxes with their places, and the lines between them."""

    def __init__(self, topology: Topology) -> None:
        self.boxes: list[_Box] = []
        self.edges: list[str] = []
        self._topology = topology
        branches = branches_of(topology)
        self._widths: dict[int, float] = {}
        self._measure(branches, 0)
        routes = [("name", place_words(topology.node)), *(("", f"route {each}") for each in topology.node.routes)]
        y = self._put(_Box(_MARGIN, _MARGIN, _width(routes), _height(routes), routes, is_pod=False)) + _GAP_Y
        for branch in branches:
            y, _ = self._draw(branch, 0, y)
        for place in unreached_places(topology, branches):
            lines = [("name", place_words(place)), *(("", line) for line in inside_words(topology, place))]
            lines += [("", f"{link.name} {link.kind} {' '.join(link.addresses)}") for link in place.links]
            y = self._put(_Box(_MARGIN, y, _width(lines), _height(lines), lines, is_pod=True)) + _GAP_Y

    def size(self) -> tuple[int, int]:
        """Return width and height of the drawing in pixels."""
        right = max(box.x + box.width for box in self.boxes)
        bottom = max(box.y + box.height for box in self.boxes)
        return round(right) + _MARGIN, round(bottom) + _MARGIN

    def _measure(self, branches: Sequence[Branch], column: int) -> None:
        for branch in branches:
            self._widths[column] = max(self._widths.get(column, 0), _width(self._lines(branch)))
            self._measure(branch.above, column + 1)

    def _draw(self, branch: Branch, column: int, y: float) -> tuple[float, tuple[float, float]]:
        """Draw a link and everything above it; return the next free y, and the middle of the box's left side."""
        lines = self._lines(branch)
        height = _height(lines)
        x = _MARGIN + sum(self._widths[each] + _GAP_X for each in range(column))
        bottom, joints = y, []
        for above in branch.above:
            bottom, joint = self._draw(above, column + 1, bottom)
            joints.append(joint)
        box = _Box(x, y, _width(lines), height, lines, is_pod=branch.place.label != NODE)
        self._put(box)
        middle = y + min(height, _LINE + 2 * _PADDING) / 2
        bend = x + self._widths[column] + _GAP_X / 2
        for end_x, end_y in joints:
            self.edges.append(f'<path d="M{x + box.width:.1f} {middle:.1f}H{bend:.1f}V{end_y:.1f}H{end_x:.1f}"/>')
        return max(bottom, y + height + _GAP_Y), (x, middle)

    def _put(self, box: _Box) -> float:
        self.boxes.append(box)
        return box.y + box.height

    def _lines(self, branch: Branch) -> list[tuple[str, str]]:
        lines = list(_link_lines(branch.link))
        if branch.place.label != NODE:
            lines.insert(0, ("name", place_words(branch.place)))
        if branch.is_entrance:
            lines += [("", line) for line in inside_words(self._topology, branch.place)]
        return lines


def _link_lines(link: TopologyLink) -> Iterator[tuple[str, str]]:
    yield "name", link.name
    yield ("", f"{link.kind}, mtu {link.mtu}") if link.is_up else ("down", f"{link.kind}, mtu {link.mtu}, DOWN")
    yield from (("", address) for address in link.addresses)
    if link.peer is not None and not link.peer.place:
        yield "down", "other end in an unknown namespace"
    if owner := owner_words(link):
        yield "", owner


def _width(lines: Sequence[tuple[str, str]]) -> float:
    return max(min(len(text), _LONGEST) for _, text in lines) * _CHARACTER + 2 * _PADDING


def _height(lines: Sequence[tuple[str, str]]) -> float:
    return len(lines) * _LINE + 2 * _PADDING - 4


def _drawn(box: _Box) -> Iterator[str]:
    kind = ' class="pod"' if box.is_pod else ""
    whole = _text("\n".join(text for _, text in box.lines))
    yield f"<g><title>{whole}</title>"
    yield f'<rect{kind} x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5"/>'
    for number, (style, text) in enumerate(box.lines):
        short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        name = f' class="{style}"' if style else ""
        y = box.y + _PADDING + 10 + number * _LINE
        yield f'<text{name} x="{box.x + _PADDING:.1f}" y="{y:.1f}">{_text(short)}</text>'
    yield "</g>"


def _text(text: str) -> str:
    return escape(printable(text))
