"""Draws a recorded terminal as one animated SVG, docs/recording.svg.

Each line appears at its time, and typed text key by key, by CSS alone: forges show such a picture in a page. Lines of
0 s are there from the start. Without an animation all lines are there: in programs that have none, and for readers who
prefer less motion. Colours follow the reader's light or dark mode.
"""

import re
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from tools.pictures.cast import COLUMNS, Cast

PICTURE: Final = Path(__file__).resolve().parents[2] / "docs" / "recording.svg"

_CHARACTER: Final = 7.23
"""Width of a character of 12 pixels, in the fonts below."""
_LINE: Final = 16
_MARGIN: Final = 14
_TYPED_S: Final = 0.2
"""A line that takes longer is typed, not printed."""
_COLOURS: Final = {"31": "r", "32": "g", "33": "y", "34": "b", "35": "m", "36": "c"}
_STYLE: Final = """
text { font: 12px "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
.paper { fill: #f6f8fa; stroke: #d0d7de }
.r { fill: #cf222e } .g { fill: #1a7f37 } .y { fill: #8a5a00 } .b { fill: #0969da } .m { fill: #8250df }
.c { fill: #1b7c83 }
.bold { font-weight: bold } .dim { opacity: .7 }
.l { animation: line 1ms both }
@keyframes line { from { visibility: hidden } to { visibility: visible } }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e6e6 } .paper { fill: #16181d; stroke: #3a3f4a }
  .r { fill: #ff7b72 } .g { fill: #56d364 } .y { fill: #e3b341 } .b { fill: #79c0ff } .m { fill: #d2a8ff }
  .c { fill: #76e3ea }
}
@media (prefers-reduced-motion: reduce) { .l { animation: none !important } }
"""
_TOKEN: Final = re.compile(r"\x1b\[([\d;]*)m|\x1b\][^\x07]*\x07|\r\n|[^\x00-\x1f]")


class _Character(NamedTuple):
    text: str
    style: str
    time: float


def drawing(cast: Cast) -> str:
    """Return the picture. Raises ValueError for a control sequence other than colours."""
    return "\n".join(_elements(_lines(cast))) + "\n"


def _elements(lines: list[list[_Character]]) -> Iterator[str]:
    width = round(2 * _MARGIN + COLUMNS * _CHARACTER)
    height = 2 * _MARGIN + _LINE * len(lines)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield "<title>A terminal: cni-harness runs a Pod, shows it, and deletes it</title>"
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="paper" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>'
    for row, line in enumerate(lines):
        if line:
            yield _line(line, _MARGIN + _LINE * row)
    yield "</svg>"


def _line(line: list[_Character], top: int) -> str:
    """Return a line. Its parts come at their own times if it was typed."""
    begin = line[0].time
    is_typed = line[-1].time - begin > _TYPED_S
    parts = []
    for (style, time), run in groupby(line, key=lambda each: (each.style, each.time if is_typed else begin)):
        text = escape("".join(each.text for each in run), quote=False)
        later = time > begin
        names = " ".join([*style.split(), *(["l"] if later else [])])
        delay = f' style="animation-delay:{time:.2f}s"' if later else ""
        parts.append(f'<tspan class="{names}"{delay}>{text}</tspan>' if names else text)
    place = f'x="{_MARGIN}" y="{top + 12}" xml:space="preserve"'
    appears = f' class="l" style="animation-delay:{begin:.2f}s"' if begin else ""
    return f"<text {place}{appears}>{''.join(parts)}</text>"


def _lines(cast: Cast) -> list[list[_Character]]:
    lines: list[list[_Character]] = [[]]
    for character in _characters(cast):
        if character.text == "\r\n" or len(lines[-1]) == COLUMNS:
            lines.append([])
        if character.text >= " ":
            lines[-1].append(character)
    while lines and "".join(each.text for each in lines[-1]) in {"", "# "}:
        lines.pop()
    return lines


def _characters(cast: Cast) -> Iterator[_Character]:
    style = ""
    for event in cast.events:
        text = event.text if event.kind == "o" else ""
        position = 0
        while position < len(text):
            token = _TOKEN.match(text, position)
            if token is None:
                raise ValueError(f"only colours are drawn, and not {text[position : position + 8]!r}")
            position = token.end()
            if token[1] is not None:
                style = _style(style, token[1])
            elif not token[0].startswith("\x1b"):
                yield _Character(token[0], style, event.time)


def _style(before: str, parameters: str) -> str:
    classes = before.split()
    for parameter in parameters.split(";"):
        if parameter in {"", "0"}:
            classes = []
        elif parameter in {"1", "2"}:
            classes.append("bold" if parameter == "1" else "dim")
        elif parameter in _COLOURS:
            classes = [each for each in classes if each not in _COLOURS.values()] + [_COLOURS[parameter]]
    return " ".join(classes)
