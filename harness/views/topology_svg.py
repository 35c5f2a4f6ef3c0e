"""The topology as a drawing (SVG 1.1): the node's frame with its links, a box for each pod, the lines between them."""

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape

from harness.output import printable
from harness.views.topology import Topology
from harness.views.topology_layout import CHARACTER, GAP_X, JOINT, LINE, MARGIN, PADDING, Box, Layout
from harness.views.topology_text import place_words

# Pixels.
_SWATCH, _BASE = 22, 20
_LANES: Final = 4
"""Ways of lines between two columns, beside each other."""
_STYLE: Final = """
.topology { color-scheme: light dark; --paper: #ffffff; --ink: #1f2430; --soft: #535b69; --frame: #f5f7fb;
  --link: #e3ebfd; --pod: #dff3e5; --fault: #b3261e; --line: #7a8494; background: var(--paper) }
@media (prefers-color-scheme: dark) {
  .topology { --paper: #14171d; --ink: #e8ebf0; --soft: #b3bbc8; --frame: #1b2029; --link: #2a3856; --pod: #21402f;
    --fault: #ff9a92; --line: #7f8a9b }
}
.topology text { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; fill: var(--soft); white-space: pre }
.topology text.name { font-weight: 600; fill: var(--ink) }
.topology text.down { fill: var(--fault) }
.topology rect { stroke: var(--line) }
.topology rect.frame { fill: var(--frame) }
.topology rect.link { fill: var(--link) }
.topology rect.pod { fill: var(--pod) }
.topology rect.paper, .topology rect.inside { fill: var(--paper) }
.topology rect.paper { stroke: none }
.topology path { stroke: var(--line); stroke-width: 1.5; fill: none }
.topology path.below { stroke-dasharray: 5 4 }
"""


def svg(topology: Topology) -> list[str]:
    """Return the lines of the drawing. It is the same for the same topology, and loads nothing.

    Its style has a scope of its own, so that the drawing can be a part of a page.
    """
    layout = Layout(topology)
    legend, bottom = _legend(layout)
    width, height = round(layout.frame.right) + MARGIN, round(bottom) + MARGIN
    return [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="topology" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}">'
        ),
        f"<title>{_text(f'Topology of the {place_words(topology.node)}')}</title>",
        f"<style>{_STYLE}</style>",
        '<rect class="paper" width="100%" height="100%"/>',
        *_drawn(layout.frame),
        *(line for box in layout.boxes if box.kind == "pod" for line in _drawn(box)),
        *_paths(layout),
        *(line for box in layout.boxes if box.kind != "pod" for line in _drawn(box)),
        *legend,
        "</svg>",
    ]


def _paths(layout: Layout) -> Iterator[str]:
    """Yield the lines between boxes; those that bend in the same gap do so beside each other."""
    ends = {box.x: 0.0 for box in layout.boxes}
    for box in layout.boxes:
        ends[box.x] = max(ends[box.x], box.right)
    lanes: dict[float, list[Box]] = {}
    for one, other, kind in layout.lines:
        start, end = one.y + JOINT, other.y + JOINT
        style = ' class="below"' if kind == "below" else ""
        if other.x < one.right:  # in one column, or to the left
            bend = max(one.right, other.right) + GAP_X / 8
            yield f'<path{style} d="M{one.right:.1f} {start:.1f}H{bend:.1f}V{end:.1f}H{other.right:.1f}"/>'
            continue
        sources = lanes.setdefault(ends[one.x], [])
        if start != end and one not in sources:
            sources.append(one)
        lane = sources.index(one) % _LANES if one in sources else 0
        bend = ends[one.x] + GAP_X * (lane + 2) / (_LANES + 3)
        yield f'<path{style} d="M{one.right:.1f} {start:.1f}H{bend:.1f}V{end:.1f}H{other.x:.1f}"/>'


def _drawn(box: Box) -> Iterator[str]:
    whole = _text("\n".join(text for _, text in box.lines))
    yield f"<g><title>{whole}</title>"
    yield _rect(box.kind, box.x, box.y, box.width, box.height)
    for number, (style, text) in enumerate(box.lines):
        name = f' class="{style}"' if style else ""
        # The boxes of a pod's links stand between its name and its routes.
        inner = box.inner + 6 if box.kind == "pod" and not style else 0
        y = box.y + _BASE + number * LINE + inner
        yield f'<text{name} x="{box.x + PADDING:.1f}" y="{y:.1f}">{_text(text)}</text>'
    yield "</g>"


def _legend(layout: Layout) -> tuple[list[str], float]:
    """Return the elements that explain boxes and lines of this drawing, below its frame, and their lower side."""
    kinds = {box.kind for box in layout.boxes}
    styles = {style for box in layout.boxes for style, _ in box.lines}
    lines = {kind for *_, kind in layout.lines}
    entries = [
        ("frame", "the node", True),
        ("link", "link of the node", "link" in kinds),
        ("pod", "pod, or another network namespace", "pod" in kinds),
        ("inside", "its interface", "inside" in kinds),
        ("line", "veth pair, or port of a bridge", bool(lines - {"below"})),
        ("below", "VLAN, macvlan or ipvlan on its link", "below" in lines),
        ("down", "down, or unknown", "down" in styles),
    ]
    x, y = float(MARGIN), layout.frame.y + layout.frame.height + PADDING
    found = []
    for kind, words, is_used in entries:
        if not is_used:
            continue
        width = _SWATCH + 8 + len(words) * CHARACTER + PADDING
        if x > MARGIN and x + width > layout.frame.right:
            x, y = float(MARGIN), y + LINE + 4
        found += [f"<g>{_rect('paper', x, y, width, LINE)}", _sample(kind, x, y + 2)]
        found += [f'<text x="{x + _SWATCH + 8:.1f}" y="{y + 13:.1f}">{words}</text></g>']
        x += width
    return found, y + LINE


def _sample(kind: str, x: float, y: float) -> str:
    if kind in {"line", "below"}:
        return f'<path class="{kind}" d="M{x:.1f} {y + 7:.1f}h{_SWATCH}"/>'
    if kind == "down":
        return f'<text class="down" x="{x:.1f}" y="{y + 11:.1f}">red</text>'
    return _rect(kind, x + 1, y, _SWATCH - 2, LINE - 4)


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5"/>'


def _text(text: str) -> str:
    return escape(printable(text))
