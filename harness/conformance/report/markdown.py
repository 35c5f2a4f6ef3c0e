"""The comparison as Markdown."""

from collections.abc import Iterator, Sequence
from typing import Final

from harness.conformance.report.markdown_parts import escaped, fenced, table
from harness.conformance.report.matrix import Chapter, Matrix
from harness.conformance.report.notes import COMMANDS, notes
from harness.conformance.report.wording import demand, facts, place

_MARKED: Final = {"fail": "**fail**", "error": "**error**", "warn": "*warn*"}


def to_markdown(matrix: Matrix) -> str:
    """Return the page: each suite's counts, every check of every plugin, and each failure and warning in words."""
    return "\n".join([*_summary(matrix), *_chapters(matrix), *_told(matrix)])


def _summary(matrix: Matrix) -> Iterator[str]:
    yield "# Conformance of CNI plugins\n"
    rows = ([escaped(cell) for cell in (chapter.title, *chapter.tallies())] for chapter in matrix.chapters)
    yield from table(["plugin", *map(escaped, matrix.suites)], rows)
    yield ""
    if remarks := [f"- **{escaped(suite)}**: {escaped(text)}" for suite, text in matrix.remarks()]:
        yield from (*remarks, "")


def _chapters(matrix: Matrix) -> Iterator[str]:
    for chapter in matrix.chapters:
        yield f"## {escaped(chapter.title)}\n"
        yield from table(["check", "level", *map(escaped, matrix.suites)], _rows(chapter, len(matrix.suites)))
        yield ""


def _rows(chapter: Chapter, suites: int) -> Iterator[Sequence[str]]:
    for section in chapter.sections:
        yield [escaped(section.title), *[""] * (suites + 1)]
        for row in section.rows:
            yield [escaped(row.check.id), str(row.check.level), *map(_cell, row.outcomes)]


def _told(matrix: Matrix) -> Iterator[str]:
    told = list(matrix.told())
    if told:
        yield "## Failures and warnings\n"
    for chapter, row, findings in told:
        yield f"### {escaped(chapter.title)}: {escaped(row.check.id)} ({row.check.level})\n"
        yield f"{escaped(row.check.title)}\n"
        yield f"> {escaped(demand(row.check))}\n>\n> {escaped(place(row.check.enforced[0]))}\n"
        for suite, finding in findings:
            yield f"**{escaped(suite)}**: {finding.outcome}\n"
            for name, fact in (*facts(finding), *notes(finding, matrix.suites[suite])):
                yield f"{name}:\n\n{fenced(fact, 'sh' if name in COMMANDS else 'text')}"


def _cell(text: str) -> str:
    return _MARKED.get(text, escaped(text))
