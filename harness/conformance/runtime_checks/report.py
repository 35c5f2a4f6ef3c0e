"""The report on a runtime, for people and for programs."""

from collections.abc import Iterator, Sequence
from typing import Final

import click

from harness.conformance.catalogue import SPEC_VERSION, SUITE_VERSION
from harness.conformance.finding import Outcome
from harness.conformance.report.listing import unchecked
from harness.conformance.report.wording import check_entry, counts, demand, label, place, tally, wrapped
from harness.conformance.runtime_checks.catalogue import RuntimeCheck, RuntimeFinding
from harness.conformance.runtime_checks.records import RecordedCall
from harness.conformance.sentences import Sentence
from harness.output import TextTable, printable
from harness.shell_command import one_line_command

_OUTCOMES: Final = (Outcome.PASS, Outcome.FAIL, Outcome.WARN, Outcome.NOT_EXAMINED)
_SHOWN: Final = 3
"""Breaches of one check that are shown to people."""


def report_on_runtime(
    findings: Sequence[RuntimeFinding], *, every: bool = False, only_failures: bool = False, width: int = 100
) -> str:
    """Return the report in lines of `width` columns: failures and warnings in full, with `every` also the others.

    With `only_failures`, warnings are left out. Requests stand on one line of any length, to be pasted into a shell.
    """
    blocks = [click.style(f"runtime: {tally(counts(findings))}", bold=True)]
    told = [Outcome.FAIL] if only_failures else [Outcome.FAIL, Outcome.WARN]
    if every and not only_failures:
        blocks.append("\n".join(_line(finding) for finding in findings if finding.outcome not in told))
    blocks += ["\n".join(_paragraph(finding, width)) for finding in findings if finding.outcome in told]
    return "\n\n".join(blocks)


def document_of_runtime(findings: Sequence[RuntimeFinding], *, only_failures: bool = False) -> dict[str, object]:
    """Return the report as a JSON object; the summary counts all findings."""
    shown = [each for each in findings if each.outcome is Outcome.FAIL or not only_failures]
    numbers = counts(findings)
    summary = {outcome.value: numbers[outcome] for outcome in _OUTCOMES}
    summary["must_failed"] = sum(finding.violates_must for finding in findings)
    return {
        "suite_version": SUITE_VERSION,
        "spec_version": SPEC_VERSION,
        "checks": [
            {
                **_entry(finding.check),
                "outcome": str(finding.outcome),
                "detail": _why(finding),
                "cases": finding.cases,
                "breaches": [
                    {"expected": each.expected, "got": each.got, "sent": _sent(each.call) if each.call else ""}
                    for each in finding.breaches
                ],
            }
            for finding in shown
        ],
        "summary": summary,
    }


def catalogue_of_runtimes(checks: Sequence[RuntimeCheck], sentences: Sequence[Sentence]) -> dict[str, object]:
    """Return the catalogue as a JSON object."""
    without = [each._asdict() for each in unchecked(sentences, "runtimes")]
    return {"checks": [_entry(check) for check in checks], "without_check": without}


def catalogue_table(checks: Sequence[RuntimeCheck]) -> TextTable:
    """Return the checks as a table."""
    rows = [
        [check.id, str(check.level), check.effect.kind if check.effect else "-", place(check.enforced[0]), check.title]
        for check in checks
    ]
    return TextTable(("CHECK", "LEVEL", "EFFECT", "SECTION", "DEMAND"), rows)


def _entry(check: RuntimeCheck) -> dict[str, object]:
    return {**check_entry(check), "needs": check.needs}


def _why(finding: RuntimeFinding) -> str:
    if finding.outcome is Outcome.NOT_EXAMINED:
        return f"needs {finding.check.needs}"
    cases = f"{finding.cases} case{'' if finding.cases == 1 else 's'}"
    return f"{len(finding.breaches)} of {cases}" if finding.breaches else cases


def _line(finding: RuntimeFinding) -> str:
    return f"{label(finding.outcome)} {finding.check.id} ({finding.check.level}): {_why(finding)}"


def _paragraph(finding: RuntimeFinding, width: int) -> Iterator[str]:
    check = finding.check
    name = click.style(check.id, bold=True)
    yield f"{label(finding.outcome)} {name} ({check.level}; {place(check.enforced[0])}), {_why(finding)}"
    for text in (check.title, demand(check)):
        yield from wrapped(text, width, "  ")
    for breach in finding.breaches[:_SHOWN]:
        for name, text in (("expected", breach.expected), ("got", breach.got)):
            yield from wrapped(printable(text), width, f"  {name + ':':10}")
        if breach.call is not None:
            yield f"  {'sent:':10}{printable(_sent(breach.call))}"
    if len(finding.breaches) > _SHOWN:
        yield f"  and {len(finding.breaches) - _SHOWN} more (-o json has all)"


def _sent(call: RecordedCall) -> str:
    """Return a request in a form that can be pasted into a shell."""
    return one_line_command(call.type, call.environ, call.stdin)
