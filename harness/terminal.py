"""Tables that fit the width of a terminal. Only this module imports rich, which takes a tenth of a second."""

import re
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from harness.output import TextTable

_GAPS: Final = (2, 1)
"""Spaces between a table's columns on the terminal; the smaller one if words would have to be broken otherwise."""
_LEAST_OF_A_PATH: Final = 24
"""A path may be broken into lines of this length. Other words are not: half an address is another address."""
_SHORT: Final = 12
"""The width of a cell that stays on one line: `372 ms`, `not ready`, an ID."""
_GOOD: Final = frozenset({"ok", "ready", "installed", "Running", "Completed", "Succeeded"})
_DOUBTFUL: Final = frozenset(
    {"warning", "incomplete", "ContainerCreating", "NotReady", "Pending", "PodInitializing", "Terminating"}
)
_MISMATCH: Final = "! "
"""The prefix of a cell that contradicts the kernel."""
_NEITHER: Final = frozenset({"", "-", "disabled", "is there already"})


def show(table: TextTable, *, colour: bool) -> None:
    """Print a table: a cell that is too long gets several lines; rows with too little width become lists."""
    console = Console(color_system="auto" if colour else None, highlight=False)
    cells = [
        [_cell(table, heading, text) for heading, text in zip(table.headings, row, strict=True)] for row in table.rows
    ]
    columns = [[Text(heading), *column] for heading, *column in zip(table.headings, *cells, strict=True)]
    for gap in _GAPS:
        widths = _widths(columns, console.width - gap * (len(columns) - 1))
        if widths is not None:
            console.print(_grid(table.headings, cells, widths, gap))
            return
    for number, row in enumerate(cells):
        if number:
            console.print()
        titles = [Text(heading, "bold") for heading in table.headings]
        first = max(title.cell_len for title in titles)
        console.print(_grid((), list(zip(titles, row, strict=True)), (first, max(1, console.width - first - 2)), 2))


def _cell(table: TextTable, heading: str, text: str) -> Text:
    style = "red" if text.startswith(_MISMATCH) else ""
    if table.verdict and heading == table.verdict and text not in _NEITHER:
        is_doubtful = text in _DOUBTFUL or re.fullmatch(r"Init:\d+/\d+", text)
        style = "green" if text in _GOOD else "yellow" if is_doubtful else "red"
    return Text(text or "-", style)


def _widths(columns: Sequence[Sequence[Text]], room: int) -> list[int] | None:
    """Return the widths of columns that fit into `room` together; None if their words do not fit."""
    least = [max(_least(cell) for cell in column) for column in columns]
    widths = [max(cell.cell_len for cell in column) for column in columns]
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widest = max((width, number) for number, width in enumerate(widths) if width > least[number])[1]
        widths[widest] -= 1
    return widths


def _least(cell: Text) -> int:
    if cell.cell_len <= _SHORT:
        return cell.cell_len
    lengths = ((cell_len(word), word.startswith("/")) for word in cell.plain.split())
    return max((min(length, _LEAST_OF_A_PATH) if is_path else length for length, is_path in lengths), default=0)


def _grid(headings: Sequence[str], rows: Sequence[Sequence[Text]], widths: Sequence[int], gap: int) -> Grid:
    grid = Grid(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold", show_header=bool(headings))
    for number, width in enumerate(widths):
        grid.add_column(Text(headings[number]) if headings else "", overflow="fold", width=width)
    for row in rows:
        grid.add_row(*row)
    return grid
