"""The comparison as Markdown."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from harness.conformance.finding import Finding
from harness.conformance.report.matrix import Chapter, Matrix
from harness.conformance.report.wording import demand, facts, place

__all__ = ["to_markdown"]

_MARKED: Final = {"fail": "**fail**", "error": "**error**", "warn": "*warn*"}
_ACTIVE: Final = re.compile(r"([\\`*_\[\]<>|])")


def to_markdown(matrix: Matrix) -> str:
    """Return the page: each suite's counts, every check of every plugin, and each failure and warning in words."""
    return "\n".join([*_summary(matrix), *_chapters(matrix), *_told(matrix)])


def _summary(matrix: Matrix) -> Iterator[str]:
    yield "# Conformance of CNI plugins\n"
    yield from _table(["plugin", *matrix.suites], ([chapter.title, *chapter.tallies()] for chapter in matrix.chapters))
    yield ""


def _chapters(matrix: Matrix) -> Iterator[str]:
    for chapter in matrix.chapters:
        yield f"## {_escaped(chapter.title)}\n"
        yield from _table(["check", "level", *matrix.suites], _rows(chapter, len(matrix.suites)))
        yield ""


def _rows(chapter: Chapter, suites: int) -> Iterator[Sequence[str]]:
    for section in chapter.sections:
        yield [section.title, *[""] * (suites + 1)]
        for row in section.rows:
            yield [row.check.id, str(row.check.level), *row.outcomes]


def _told(matrix: Matrix) -> Iterator[str]:
    told = list(matrix.told())
    if told:
        yield "## Failures and warnings\n"
    for chapter, row, findings in told:
        yield f"### {_escaped(chapter.title)}: {_escaped(row.check.id)} ({row.check.level})\n"
        yield f"{_escaped(row.check.title)}\n"
        yield f"> {_escaped(demand(row.check))}\n>\n> {_escaped(place(row.check.enforced[0]))}\n"
        for suite, finding in findings:
            yield f"**{_escaped(suite)}**: {finding.outcome}\n"
            yield from _facts(finding)


def _facts(finding: Finding) -> Iterator[str]:
    for name, fact in facts(finding):
        # A fence has to be longer than any fence inside.
        fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall("`+", fact))])
        yield f"{name}:\n\n{fence}text\n{fact}\n{fence}\n"


def _table(headings: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    yield _line([_escaped(heading) for heading in headings])
    yield _line(["---"] * len(headings))
    for row in rows:
        yield _line([_MARKED.get(cell, _escaped(cell)) for cell in row])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", text)
