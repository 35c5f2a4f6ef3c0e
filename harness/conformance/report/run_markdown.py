"""The report of one run as a page in Markdown, for a repository or a comment on a change."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from harness.conformance.examination import Examination
from harness.conformance.finding import Finding
from harness.conformance.report.heading import circumstances, cut_short
from harness.conformance.report.markdown_parts import escaped, fenced, table
from harness.conformance.report.notes import COMMANDS, notes
from harness.conformance.report.plugin_report import PluginReport, plugin_reports
from harness.conformance.report.transcript import transcript
from harness.conformance.report.verdict_line import verdict
from harness.conformance.report.wording import demand, facts, place
from harness.output import printable

_MARKED = {"fail": "**fail**", "partial": "*partial*"}


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
    yield from table(["plugin", "core", "extended", "checks"], map(_row, plugin_reports(examination)))
    yield ""


def _row(report: PluginReport) -> list[str]:
    core, extended = str(report.standing.core), report.standing.extended
    of = f"{len(report.standing.passed)} of {len(extended)}" if extended else "none"
    return [escaped(report.title), _MARKED.get(core, core), of, escaped(report.tally)]


def _plugin(report: PluginReport, examination: Examination) -> Iterator[str]:
    yield f"## {escaped(report.title)}\n"
    yield f"{escaped(report.verdict)}\n"
    if report.standing.extended:
        rows = ([escaped(name), _MARKED.get(state, state)] for name, state in report.standing.extended.items())
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
    for name, fact in (*facts(finding), *notes(finding, examination)):
        yield f"{name}:\n\n{fenced(fact, 'sh' if name in COMMANDS else 'text')}"
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
    yield f"As root, in the same folder:\n\n{fenced(printable(shlex.join(examination.command)), 'sh')}"
