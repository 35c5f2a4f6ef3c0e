"""Tables in Markdown, each between two comments of a page; the text around them stays as it is."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.files import write_atomically
from harness.output import TextTable

_MARKED = re.compile(r"(<!-- bench: (?P<name>[a-z]+) -->\n).*?(<!-- /bench -->)", re.DOTALL)


class MarkerError(Exception):
    """There is no place for the tables."""


def markdown(table: TextTable) -> str:
    """Return a table in Markdown: figures to the right."""
    rows = [[cell or "-" for cell in row] for row in table.rows]
    numeric = [all(not cell[:1].isalpha() for cell in column) for column in zip(*rows, strict=True)]
    rule = ["---:" if right else "---" for right in numeric]
    return "\n".join(f"| {' | '.join(row)} |" for row in (table.headings, rule, *rows))


def filled(text: str, tables: Mapping[str, str]) -> str:
    """Put each table between `<!-- bench: NAME -->` and `<!-- /bench -->`; a name without a table stays as it is."""
    return _MARKED.sub(
        lambda found: f"{found[1]}{tables[found['name']]}\n{found[3]}" if found["name"] in tables else found[0], text
    )


def check_markers(paths: Iterable[Path]) -> None:
    """Raise MarkerError if a file has no place for a table, OSError if it cannot be read."""
    for path in paths:
        if not _MARKED.search(path.read_text()):
            raise MarkerError(f"{path}: no <!-- bench: NAME --> with <!-- /bench --> after it")


def write_between_markers(path: Path, tables: Mapping[str, str]) -> None:
    """Fill the file at `path`. Raises OSError."""
    write_atomically(path, filled(path.read_text(), tables).encode(), mode=path.stat().st_mode & 0o777)
