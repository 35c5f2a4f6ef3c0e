"""All text for stdout and stderr: the result, a table for people, JSON or YAML for programs; and messages.

Everything goes through `write`, which escapes control characters: names and messages come from plugins, pods and files.
The linter forbids click.echo elsewhere. `logs` and `exec` pass the output of containers on as it is.
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TextIO

import click

_UNITS: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_OUR_ROOMS: Final = frozenset({"api", "harness", "netlink", "skel"})
_LONG_ID: Final = re.compile(r"(?<![0-9a-f])([0-9a-f]{12})[0-9a-f]{52}(?![0-9a-f])")
"""A container ID in containerd's form."""
UNPRINTABLE: Final = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    "|[\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that XML 1.0 forbids, that control a terminal, end a line, are invisible, or change the direction of
writing (Unicode's categories Cc, Cf, Zl, Zp; without the marks of single scripts)."""
_OWN_STYLE: Final = re.compile(r"(\x1b\[[0-9;]*m)")
_ERASE: Final = "\r\x1b[K"
_SIGNS: Final = {"+": "green", "-": "red", "~": "yellow"}


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


def emit(output: str, document: object, table: TextTable) -> None:
    """Print `document` as "json" or "yaml", otherwise `table`, unless it is empty.

    "wide" is the table with whole values and one line per row. "table" shortens container IDs of 64 digits, and fits
    the width of a terminal.
    """
    if output == "json":
        write(json_escape(json.dumps(document, indent=2, ensure_ascii=False)))
    elif output == "yaml":
        # JSON turns enumerations and the like into plain strings.
        write(_yaml(json.loads(json.dumps(document))), nl=False)
    elif not table.rows:
        return
    elif output == "wide":
        write(_shown(table).render(colour=is_coloured(sys.stdout)), styled=True)
    else:
        short = _shown(table._replace(rows=[[shortened(cell) for cell in row] for row in table.rows]))
        if sys.stdout.isatty():
            from harness.terminal import show

            show(short, colour=is_coloured(sys.stdout))
        else:
            write(short.render(colour=False))


def write(text: str, *, err: bool = False, nl: bool = True, styled: bool = False) -> None:
    """Print text on stdout, or with `err` on stderr. Control characters are shown as escapes.

    Colours stay if `styled` says that this program has made them; foreign parts of the text are escaped already.
    Raises OSError.
    """
    parts = _OWN_STYLE.split(text) if styled else [text]
    harmless = "".join(part if number % 2 else printable(part) for number, part in enumerate(parts))
    click.echo(harmless, err=err, nl=nl)  # noqa: TID251 -- the one place


def say(message: str, *, styled: bool = False) -> None:
    """Tell the user something besides the result: one line on stderr, escaped as `write` does.

    Nothing is raised: a closed stderr must not stop the work.
    """
    try:
        write(message, err=True, styled=styled)
    except OSError:
        abandon(sys.stderr)


def replace_line(text: str) -> None:
    """Print a line on stderr, a terminal, in place of the one that the cursor is on, and stay on it."""
    click.echo(f"{_ERASE}{on_one_line(text)}", nl=False, err=True)  # noqa: TID251 -- erases; the text is escaped


def _shown(table: TextTable) -> TextTable:
    """Return a table whose cells are one line each, with escapes."""
    rows = [[on_one_line(cell) for cell in row] for row in table.rows]
    return table._replace(headings=[on_one_line(heading) for heading in table.headings], rows=rows)


def _yaml(document: object) -> str:
    """Return YAML whose strings with control characters are in double quotes, the only form that has escapes."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        style = '"' if UNPRINTABLE.search(text) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent)
    return printable(yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True))


def say_changes(lines: Sequence[str]) -> None:
    """Print lines that begin with "+", "-" or "~" on stdout, in the colours of these signs."""
    for line in lines:
        text = on_one_line(line)
        write(click.style(text, fg=_SIGNS.get(text[:1])) if is_coloured(sys.stdout) else text, styled=True)


def shortened(text: str) -> str:
    """Return a text with the first 12 digits of each container ID of 64; in a longer text "…" marks the rest."""
    return _LONG_ID.sub(lambda found: found[1] + ("" if found[0] == text else "…"), text)


def is_coloured(stream: TextIO) -> bool:
    """Tell whether colours are wanted on a stream: not with NO_COLOR, otherwise on a terminal."""
    context = click.get_current_context(silent=True)
    wanted = context.color if context is not None else None
    return stream.isatty() if wanted is None else wanted


def abandon(stream: TextIO) -> None:
    """Write nothing more to a stream whose reader has gone; otherwise Python fails at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def printable(text: str) -> str:
    """Return a text with control characters, which a plugin may have printed, made visible and harmless."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode-escape", "surrogatepass").decode(), text)


def on_one_line(text: str) -> str:
    """Return a text like `printable`, with a space in place of line ends and tabs."""
    return printable(re.sub(r"[ \t]*[\n\t]\s*", " ", text))


def json_escape(text: str) -> str:
    """Return JSON in which control characters of terminals, and half surrogate pairs, are JSON escapes."""
    return UNPRINTABLE.sub(lambda found: json.dumps(found[0])[1:-1], text)


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
