"""The report in the Test Anything Protocol, version 13: readers such as Debian's prove(1) refuse version 14."""

import json
import re
from collections.abc import Iterator
from typing import Final

from harness.conformance.engine.examination import Examination
from harness.conformance.finding import NOT_JUDGED, Finding, Outcome
from harness.conformance.report.heading import heading
from harness.conformance.report.plugin_report import plugin_reports
from harness.conformance.report.wording import demand, facts, notes, place, reason
from harness.output import printable

_ACTIVE: Final = re.compile(r"([\\#])")
_SEVERITY: Final = {Outcome.FAIL: "fail", Outcome.ERROR: "error", Outcome.WARN: "warning"}


def to_tap(examination: Examination) -> str:
    """Return the report: a test point for each finding, with a diagnostic for failures, errors and warnings.

    A check that does not apply, or was not examined, is a SKIP, and a failure that is known a TODO. A warning is "ok".
    A run that was cut short ends with "Bail out!".
    """
    end = [f"Bail out! {_line(printable(examination.cut_short))}"] if examination.cut_short else []
    return "\n".join([*_head(examination), *_points(examination), *end, ""])


def _head(examination: Examination) -> Iterator[str]:
    yield "TAP version 13"
    yield from (f"# {name}: {_line(value)}" for name, value in heading(examination))
    for each in plugin_reports(examination):
        if each.left_for_good:
            yield f"# {each.title}: left for good by the first ADD: {_line(', '.join(each.left_for_good))}"
    yield f"1..{len(examination.findings)}"


def _points(examination: Examination) -> Iterator[str]:
    for number, finding in enumerate(examination.findings, 1):
        subject = finding.subject
        name = f"{subject.network.name} {subject.type} {subject.profile}: {finding.check.id}"
        ok = "not ok" if finding.outcome in {Outcome.FAIL, Outcome.ERROR} else "ok"
        yield f"{ok} {number} - {_description(name)}{_directive(finding)}"
        if finding.outcome in _SEVERITY:
            yield from _diagnostic(finding, examination)


def _directive(finding: Finding) -> str:
    if finding.outcome in NOT_JUDGED:
        return f" # SKIP {_description(reason(finding))}".rstrip()
    if finding.known and finding.outcome in {Outcome.FAIL, Outcome.ERROR}:
        return f" # TODO {_description(finding.known)}"
    return ""


def _diagnostic(finding: Finding, examination: Examination) -> Iterator[str]:
    """Yield a block of YAML, indented by two spaces."""
    told = {
        "message": finding.check.title,
        "severity": _SEVERITY[finding.outcome],
        "level": str(finding.check.level),
        "place": place(finding.check.enforced[0]),
        "sentence": demand(finding.check),
        **dict(facts(finding)),
        **dict(notes(finding, examination.arguments)),
        "duration_ms": round(finding.seconds * 1000),
    }
    # JSON is YAML, and what the small YAML parsers of TAP's readers understand.
    lines = (f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in told.items())
    yield from (f"  {line}" for line in ("---", *lines, "..."))


def _description(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", _line(printable(text)))


def _line(text: str) -> str:
    return " ".join(text.split())
