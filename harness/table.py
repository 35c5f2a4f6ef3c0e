"""Tables of text, with their columns aligned."""

from collections.abc import Sequence
from typing import NamedTuple

import click


class TextTable(NamedTuple):
    """Headings and rows of text. `verdict` names the column with "ok", "ready" and errors, which is coloured."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    verdict: str = ""

    def render(self, *, colour: bool) -> str:
        """Return the table with its columns aligned; an empty cell shows as "-"."""
        rows = [[cell or "-" for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.headings, *rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (self.headings, *rows)]
        if colour:
            lines[0] = click.style(lines[0], bold=True)
        return "\n".join(lines)
