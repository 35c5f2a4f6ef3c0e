"""Several suites of plugins side by side: each check's finding about each suite."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.conformance.catalogue import Check
from harness.conformance.engine.examination import Examination
from harness.conformance.finding import Finding
from harness.conformance.report.outline import cut_short, plugin_reports
from harness.conformance.report.wording import TOLD, counts, place, tally
from harness.conformance.subject import Subject


class CheckRow(NamedTuple):
    """One check of one plugin: its finding for each suite, None if the suite has no such plugin."""

    check: Check
    findings: Sequence[Finding | None]

    @property
    def outcomes(self) -> list[str]:
        """The outcome of each suite, "-" if it has no such plugin."""
        return [str(finding.outcome) if finding else "-" for finding in self.findings]


@dataclass(frozen=True)
class Chapter:
    """Everything about one plugin."""

    title: str
    sections: Mapping[str, Sequence[CheckRow]]
    """The checks that enforce sentences of one section, by its name."""

    @property
    def rows(self) -> list[CheckRow]:
        """The rows of all sections."""
        return [row for rows in self.sections.values() for row in rows]

    def tallies(self) -> list[str]:
        """Return the counts of each suite in words, "-" if it has no such plugin."""
        columns = zip(*(row.findings for row in self.rows), strict=True)
        present = ([finding for finding in column if finding] for column in columns)
        return [tally(counts(column)) if column else "-" for column in present]


@dataclass(frozen=True)
class Matrix:
    """The comparison: a column for each suite, a chapter for each plugin."""

    suites: Mapping[str, Examination]
    chapters: Sequence[Chapter]

    def remarks(self) -> Iterator[tuple[str, str]]:
        """Yield facts about suites that are no findings: an early end, and things left for good by the first ADD."""
        for suite, examination in self.suites.items():
            if sentence := cut_short(examination):
                yield suite, sentence
            for report in plugin_reports(examination):
                if report.left_for_good:
                    yield suite, f"{report.title}: left for good by the first ADD: {', '.join(report.left_for_good)}"

    def told(self) -> Iterator[tuple[Chapter, CheckRow, list[tuple[str, Finding]]]]:
        """Yield the checks that failed, did not finish or warned for any suite, with the findings of those suites."""
        for chapter in self.chapters:
            for row in chapter.rows:
                named = zip(self.suites, row.findings, strict=True)
                told = [(suite, each) for suite, each in named if each and each.outcome in TOLD]
                if told:
                    yield chapter, row, told


def matrix_of(suites: Mapping[str, Examination]) -> Matrix:
    """Return the comparison of the suites' findings. The order of `suites` is that of the columns."""
    cells = {
        (suite, _place(finding.subject), finding.check.id): finding
        for suite, examination in suites.items()
        for finding in examination.findings
    }
    subjects: dict[tuple[int, str], dict[str, Check]] = {}
    for finding in cells.values():
        subjects.setdefault(_place(finding.subject), {})[finding.check.id] = finding.check
    chapters = []
    for where, checks in subjects.items():
        sections: dict[str, list[CheckRow]] = {}
        for name, check in checks.items():
            row = CheckRow(check, [cells.get((suite, where, name)) for suite in suites])
            sections.setdefault(place(check.enforced[0]), []).append(row)
        chapters.append(Chapter(where[1], sections))
    return Matrix(suites, chapters)


def _place(subject: Subject) -> tuple[int, str]:
    """Return a plugin's place, independent of its suite: its position in the list, and its name in words."""
    return len(subject.before), subject.place
