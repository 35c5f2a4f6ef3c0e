"""The result, alone on stdout: a table for people, JSON or YAML for programs."""

import json
import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, TextIO

import click

from harness.table import Table

__all__ = [
    "UNPRINTABLE",
    "abandon",
    "age",
    "emit",
    "message_of",
    "printable",
    "report_width",
    "say_changes",
    "seconds",
    "shortened",
]

_UNITS: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_OUR_ROOMS: Final = frozenset({"harness", "netlink", "skel"})
_LONG_ID: Final = re.compile(r"(?<![0-9a-f])([0-9a-f]{12})[0-9a-f]{52}(?![0-9a-f])")
"""A container ID in containerd's form."""
UNPRINTABLE: Final = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""Characters that XML 1.0 forbids, that control a terminal, end a line, or change the direction of writing."""
_SIGNS: Final = {"+": "green", "-": "red", "~": "yellow"}


def emit(output: str, document: object, table: Table) -> None:
    """Print `document` as "json" or "yaml", otherwise `table`, unless it is empty.

    "wide" is the table with whole values and one line per row. "table" shortens container IDs of 64 digits, and fits
    the width of a terminal.
    """
    if output == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    elif output == "yaml":
        import yaml

        # JSON turns enumerations and the like into plain strings.
        click.echo(yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=False, allow_unicode=True), nl=False)
    elif not table.rows:
        return
    elif output == "wide":
        click.echo(table.render(colour=_is_coloured()))
    else:
        short = table._replace(rows=[[shortened(cell) for cell in row] for row in table.rows])
        if sys.stdout.isatty():
            from harness.terminal import show

            show(short, colour=_is_coloured())
        else:
            click.echo(short.render(colour=False))


def say_changes(lines: Sequence[str]) -> None:
    """Print lines that begin with "+", "-" or "~" on stdout, in the colours of these signs."""
    for line in lines:
        click.echo(click.style(line, fg=_SIGNS.get(line[:1])), color=_is_coloured())


def shortened(text: str) -> str:
    """Return a text with the first 12 digits of each container ID of 64; in a longer text "…" marks the rest."""
    return _LONG_ID.sub(lambda found: found[1] + ("" if found[0] == text else "…"), text)


def _is_coloured() -> bool:
    context = click.get_current_context(silent=True)
    wanted = context.color if context is not None else None
    return sys.stdout.isatty() if wanted is None else wanted


def abandon(stream: TextIO) -> None:
    """Write nothing more to a stream whose reader has gone; otherwise Python fails at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def printable(text: str) -> str:
    """Return a text with control characters, which a plugin may have printed, made visible and harmless."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode-escape", "surrogatepass").decode(), text)


def seconds(duration: float) -> str:
    """Return a duration in seconds in readable form: `87 ms`, `1.24 s`."""
    return f"{duration * 1000:.0f} ms" if duration < 1 else f"{duration:.2f} s"


def age(moment: str) -> str:
    """Return how long ago a moment (RFC 3339) was, in its largest unit: `45s`, `12m`, `3h`, `8d`; "" if unreadable."""
    try:
        elapsed = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):  # TypeError: without a time zone
        return ""
    for unit, length in _UNITS.items():
        if elapsed >= length:
            return f"{elapsed // length:.0f}{unit}"
    return "0s"


def message_of(error: BaseException) -> str:
    """Return the message of an error on one line; an unexpected error is marked, with its type."""
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


def report_width() -> int:
    """Return the columns of a report in sentences: those of the terminal, 120 at most, and 100 without a terminal."""
    from shutil import get_terminal_size

    return min(get_terminal_size((100, 24)).columns, 120)
