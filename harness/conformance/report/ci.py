"""Reports for CI: JUnit's XML, and the Test Anything Protocol.

TAP is of version 13: readers such as Debian's prove(1) refuse version 14.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree as ET

from harness.conformance.engine.examination import Examination
from harness.conformance.finding import NOT_JUDGED, Finding, Outcome
from harness.conformance.report.outline import PluginReport, circumstances, cut_short, heading, plugin_reports
from harness.conformance.report.wording import counts, demand, facts, notes, paragraph, place, reason
from harness.output import printable

_SUITE: Final = "cni-harness conformance"
_INCOMPLETE: Final = "incomplete"
_ACTIVE: Final = re.compile(r"([\\#])")
_SEVERITY: Final = {Outcome.FAIL: "fail", Outcome.ERROR: "error", Outcome.WARN: "warning"}


def junit(examination: Examination) -> bytes:
    """Return the findings as JUnit's XML: a testsuite for each plugin in its profile.

    A check that is not applicable, or was not examined, is skipped, with the reason; so is a failure that is known. A
    warning has passed, with its text in system-out. If the run was cut short, a first testsuite has an error that says
    so.
    """
    reason = cut_short(examination)
    root = ET.Element("testsuites", {"name": _SUITE} | _figures(examination.findings, cut=bool(reason)))
    if reason:
        suite = ET.SubElement(root, "testsuite", {"name": _INCOMPLETE} | _figures((), cut=True))
        case = ET.SubElement(suite, "testcase", classname=_SUITE, name=_INCOMPLETE, time="0.000")
        ET.SubElement(case, "error", type=_INCOMPLETE, message=reason)
    for report in plugin_reports(examination):
        _suite(root, report, examination)
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(root: ET.Element, report: PluginReport, examination: Examination) -> None:
    subject, findings = report.subject, report.findings
    network = printable(subject.network.name)
    timestamp = examination.began.isoformat(timespec="seconds")
    names = {"name": f"{network}: {subject}", "timestamp": timestamp}
    suite = ET.SubElement(root, "testsuite", names | _figures(findings))
    properties = ET.SubElement(suite, "properties")
    for name, value in (
        ("network", network),
        ("plugin", subject.type),
        ("profile", str(subject.profile)),
        ("cniVersion", subject.network.cni_version),
        ("verdict", report.verdict),
        *([("left for good", ", ".join(report.left_for_good))] if report.left_for_good else []),
        *circumstances(examination),
    ):
        ET.SubElement(properties, "property", name=name, value=value)
    for finding in findings:
        _case(suite, finding, f"{network}.{subject.type}.{subject.profile}", examination)


def _case(suite: ET.Element, finding: Finding, classname: str, examination: Examination) -> None:
    case = ET.SubElement(suite, "testcase", classname=classname, name=finding.check.id, time=f"{finding.seconds:.3f}")
    noted = (f"{name}: {fact}" for name, fact in notes(finding, examination.arguments))
    told = "\n".join([place(finding.check.enforced[0]), paragraph(finding), *noted])
    if _is_known(finding):
        ET.SubElement(case, "skipped", message=f"known failure: {printable(finding.known)}")
        ET.SubElement(case, "system-out").text = told
    elif finding.outcome is Outcome.FAIL:
        ET.SubElement(case, "failure", type=str(finding.check.level), message=finding.check.title).text = told
    elif finding.outcome is Outcome.ERROR:
        ET.SubElement(case, "error", type="error", message=printable(finding.detail)).text = told
    elif finding.outcome in NOT_JUDGED:
        ET.SubElement(case, "skipped", message=printable(finding.detail))
    elif finding.outcome is Outcome.WARN:
        ET.SubElement(case, "system-out").text = f"warning ({finding.check.level}): {told}"
    elif finding.detail:
        ET.SubElement(case, "system-out").text = printable(finding.detail)


def _is_known(finding: Finding) -> bool:
    return finding.known != "" and finding.outcome in {Outcome.FAIL, Outcome.ERROR, Outcome.WARN}


def _figures(findings: Sequence[Finding], *, cut: bool = False) -> dict[str, str]:
    known = sum(map(_is_known, findings))
    numbers = counts([finding for finding in findings if not _is_known(finding)])
    return {
        "tests": str(len(findings) + cut),
        "failures": str(numbers[Outcome.FAIL]),
        "errors": str(numbers[Outcome.ERROR] + cut),
        "skipped": str(numbers[Outcome.NOT_APPLICABLE] + numbers[Outcome.NOT_EXAMINED] + known),
        "time": f"{sum(finding.seconds for finding in findings):.3f}",
    }


def to_tap(examination: Examination) -> str:
    """Return the report: a test point for each finding, with a diagnostic for failures, errors and warnings.

    A check that does not apply, or was not examined, is a SKIP, and a failure that is known a TODO. A warning is "ok".
    A run that was cut short ends with "Bail out!".
    """
    return "\n".join([*_tap_lines(examination), ""])


def _tap_lines(examination: Examination) -> Iterator[str]:
    yield "TAP version 13"
    yield from (f"# {name}: {_line(value)}" for name, value in heading(examination))
    for each in plugin_reports(examination):
        if each.left_for_good:
            yield f"# {each.title}: left for good by the first ADD: {_line(', '.join(each.left_for_good))}"
    yield f"1..{len(examination.findings)}"
    for number, finding in enumerate(examination.findings, 1):
        subject = finding.subject
        name = f"{subject.network.name} {subject.type} {subject.profile}: {finding.check.id}"
        ok = "not ok" if finding.outcome in {Outcome.FAIL, Outcome.ERROR} else "ok"
        yield f"{ok} {number} - {_description(name)}{_directive(finding)}"
        if finding.outcome in _SEVERITY:
            yield from _diagnostic(finding, examination)
    if examination.cut_short:
        yield f"Bail out! {_line(printable(examination.cut_short))}"


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
    # JSON is YAML, and the small YAML parsers of TAP's readers understand it.
    lines = (f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in told.items())
    yield from (f"  {line}" for line in ("---", *lines, "..."))


def _description(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", _line(printable(text)))


def _line(text: str) -> str:
    return " ".join(text.split())
