"""Pages in Markdown: the report of one run, and the comparison of suites."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from harness.conformance.engine.examination import Examination
from harness.conformance.finding import Finding
from harness.conformance.report.matrix import Chapter, Matrix
from harness.conformance.report.outline import PluginReport, circumstances, cut_short, plugin_reports, steps, verdict
from harness.conformance.report.transcript import transcript
from harness.conformance.report.wording import COMMANDS, demand, facts, notes, place
from harness.output import printable

_ACTIVE: Final = re.compile(r"([\\`*_\[\]<>|~&#])")

_MARKED_STATES = {"fail": "**fail**", "partial": "*partial*"}

_MARKED_OUTCOMES: Final = {"fail": "**fail**", "error": "**error**", "warn": "*warn*"}


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


def run_markdown(examination: Examination) -> str:
    """Return the page: the verdict, the circumstances, and for each plugin its failures and warnings in full."""
    body = [part for report in plugin_reports(examination) for part in _plugin(report, examination)]
    return "\n".join(["# Conformance\n", *overview(examination), *body, *reproduction(examination)])


def overview(examination: Examination) -> Iterator[str]:
    """Yield the lines of the verdict, the circumstances and the table of plugins."""
    if reason := cut_short(examination):
        yield f"**Incomplete.** {escaped(reason)}\n"
    yield f"**{escaped(verdict(examination.findings))}**\n"
    rows = ([escaped(name), escaped(value)] for name, value in circumstances(examination))
    yield from table(["run", ""], rows)
    yield ""
    yield from table(["plugin", "works", "core", "extended", "checks"], map(_row, plugin_reports(examination)))
    yield ""


def _row(report: PluginReport) -> list[str]:
    states = [str(report.standing.works), str(report.standing.core)]
    extended = report.standing.extended
    of = f"{len(report.standing.passed)} of {len(extended)}" if extended else "none"
    return [escaped(report.title), *(_MARKED_STATES.get(each, each) for each in states), of, escaped(report.tally)]


def _plugin(report: PluginReport, examination: Examination) -> Iterator[str]:
    yield f"## {escaped(report.title)}\n"
    yield f"{escaped(report.verdict)}\n"
    if report.standing.extended:
        rows = ([escaped(name), _MARKED_STATES.get(state, state)] for name, state in report.standing.extended.items())
        yield from table(["feature", "state"], rows)
        yield ""
    if report.left_for_good:
        yield f"Left for good by the first ADD, which is no fault: {escaped(', '.join(report.left_for_good))}\n"
    for finding in report.told:
        yield from _finding(finding, examination)
    yield from _folded(f"passed: {len(report.passed)}", {"": report.passed})
    yield from _folded("not examined", report.not_examined)
    yield from _folded("not applicable", report.not_applicable)


def _finding(finding: Finding, examination: Examination) -> Iterator[str]:
    check = finding.check
    yield f"### {finding.outcome} {escaped(check.id)} ({check.level})\n"
    yield f"{escaped(check.title)}\n"
    yield f"> {escaped(demand(check))}\n>\n> {escaped(place(check.enforced[0]))}\n"
    yield from _facts(finding, examination)
    if calls := transcript(finding):
        yield f"<details><summary>{len(finding.transcript)} executions</summary>\n\n{fenced(calls, 'sh')}\n</details>\n"


def _folded(title: str, groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield IDs of checks by their reason, folded."""
    if any(groups.values()):
        yield f"<details><summary>{title}</summary>\n"
        for reason, ids in groups.items():
            yield f"- {f'{escaped(reason)}: ' if reason else ''}{', '.join(map(escaped, sorted(ids)))}"
        yield "\n</details>\n"


def reproduction(examination: Examination) -> Iterator[str]:
    """Yield the lines of the section that tells how to repeat the run."""
    yield "## Reproduce\n"
    for number, step in enumerate(steps(examination), 1):
        yield f"{number}. {escaped(step)}"
    yield f"\n{fenced(printable(shlex.join(examination.command)), 'sh')}"


def comparison_in_markdown(matrix: Matrix) -> str:
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
    for title, rows in chapter.sections.items():
        yield [escaped(title), *[""] * (suites + 1)]
        for row in rows:
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
            yield from _facts(finding, matrix.suites[suite])


def _facts(finding: Finding, examination: Examination) -> Iterator[str]:
    for name, fact in (*facts(finding), *notes(finding, examination.arguments)):
        yield f"{name}:\n\n{fenced(fact, 'sh' if name in COMMANDS else 'text')}"


def _cell(text: str) -> str:
    return _MARKED_OUTCOMES.get(text, escaped(text))
