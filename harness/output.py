"""The result, on stdout and nothing else there: a table for people, JSON or YAML for programs."""

import json
import os
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple, TextIO

import click

__all__ = ["Table", "abandon", "emit", "message_of", "seconds"]

_OUR_ROOMS: Final = frozenset({"harness", "netlink", "skel"})


class Table(NamedTuple):
    """Headings and rows of text."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def render(self, *, colour: bool) -> str:
        """Return the table with its columns aligned; an empty cell shows as "-"."""
        rows = [[cell or "-" for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.headings, *rows, strict=True)]
        lines = [self._line(row, widths) for row in (self.headings, *rows)]
        if colour:
            lines[0] = click.style(lines[0], bold=True)
        return "\n".join(lines)

    @staticmethod
    def _line(row: Sequence[str], widths: Sequence[int]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def emit(output: str, document: object, table: Table) -> None:
    """Print `document` as "json" or "yaml", otherwise `table`, unless it is empty."""
    if output == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    elif output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
    elif table.rows:
        context = click.get_current_context(silent=True)
        wanted = context.color if context is not None else None
        click.echo(table.render(colour=sys.stdout.isatty() if wanted is None else wanted))


def abandon(stream: TextIO) -> None:
    """Say no more to whoever read a standard stream and has gone; Python would fail over it again at its exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def seconds(duration: float) -> str:
    """Return a duration in seconds as people read it: `87 ms`, `1.24 s`."""
    return f"{duration * 1000:.0f} ms" if duration < 1 else f"{duration:.2f} s"


def message_of(error: BaseException) -> str:
    """Return what went wrong, on one line; an error that nobody foresaw says so, and of what type it is."""
    if isinstance(error, BaseExceptionGroup):
        text = "; ".join(message_of(part) for part in error.exceptions)
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif type(error).__module__.partition(".")[0] in _OUR_ROOMS:
        text = str(error)
    else:
        text = f"unforeseen {type(error).__name__}: {error} (-vv shows where)"
    notes: list[str] = getattr(error, "__notes__", [])
    return " ".join("; ".join([text, *notes]).split())
