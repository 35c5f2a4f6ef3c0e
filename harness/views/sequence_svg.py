"""The sequence of a run as a drawing (SVG 1.1), for a page that has the colours (explain.css)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from harness.views.sequence import KERNEL, Arrow, lanes_of

# Pixels.
_LANE, _ROW, _TOP, _MARGIN, _CHARACTER = 210, 30, 64, 110, 7.0
_BOX: Final = (170, 30)
_HEAD: Final = 7
"""The length of the head of an arrow."""
_MOST: Final = 400
"""Rows that are drawn."""


def sequence_svg(found: Sequence[Arrow]) -> list[str]:
    """Return the lines of the drawing: a column for each lane, a row for each arrow; at most 400 rows."""
    lanes = lanes_of(found)
    columns = {lane: _MARGIN + number * _LANE for number, lane in enumerate(lanes)}
    drawn = found[:_MOST]
    width = 2 * _MARGIN + max(0, len(lanes) - 1) * _LANE
    height = _TOP + (len(drawn) + 1) * _ROW
    return [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="sequence" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="Who calls whom">'
        ),
        *(line for lane, x in columns.items() for line in _lane(lane, x, height)),
        *(line for row, arrow in enumerate(drawn) for line in _row(arrow, columns, _TOP + (row + 0.7) * _ROW, width)),
        "</svg>",
    ]


def _lane(lane: str, x: float, height: float) -> Iterator[str]:
    width, tall = _BOX
    kind = ' class="kernel"' if lane == KERNEL else ""
    yield f"<g{kind}><title>{escape(lane)}</title>"
    yield f'<line class="life" x1="{x}" y1="{tall + 12}" x2="{x}" y2="{height - 8}"/>'
    yield f'<rect x="{x - width / 2:g}" y="12" width="{width}" height="{tall}" rx="6"/>'
    yield f'<text class="lane" x="{x}" y="32">{escape(_short(lane, width - 16))}</text></g>'


def _row(arrow: Arrow, columns: Mapping[str, int], y: float, width: float) -> Iterator[str]:
    start, end = columns[arrow.source], columns[arrow.target]
    kind = quoteattr(f"{arrow.kind} error" if arrow.is_error else arrow.kind)
    yield f"<g class={kind}><title>{escape(arrow.title)}</title>"
    if arrow.kind == "note":
        yield f'<circle cx="{start}" cy="{y:g}" r="4"/>'
        # A note may go on to the next lane, or to the edge.
        room = min(_LANE, width - start) - 20
        yield f'<text class="beside" x="{start + 10}" y="{y + 4:g}">{escape(_short(arrow.text, room))}</text>'
    else:
        way = 1 if end > start else -1
        yield f'<line x1="{start}" y1="{y:g}" x2="{end - way * _HEAD}" y2="{y:g}"/>'
        yield f'<path d="M{end} {y:g}l{-way * _HEAD} -4v8z"/>'
        middle = start + way * _LANE / 2
        yield f'<text x="{middle:g}" y="{y - 6:g}">{escape(_short(arrow.text, _LANE - 16))}</text>'
    yield "</g>"


def _short(text: str, room: float) -> str:
    most = int(room / _CHARACTER)
    return text if len(text) <= most else f"{text[: most - 1]}…"
