"""Parts of a page in Markdown: tables, and blocks of text that nothing in them can end."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

_ACTIVE: Final = re.compile(r"([\\`*_\[\]<>|~&#])")


def escaped(text: str) -> str:
    """Return a text on one line, without a character that Markdown interprets."""
    return _ACTIVE.sub(r"\\\1", " ".join(text.split()))


def fenced(text: str, language: str = "text") -> str:
    """Return a block of text. A fence has to be longer than any fence inside."""
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; headings and cells are Markdown."""
    yield _line(headings)
    yield _line(["---"] * len(headings))
    yield from map(_line, rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
