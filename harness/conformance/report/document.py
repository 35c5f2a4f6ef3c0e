"""The report for programs: a JSON object, and JUnit's XML for CI."""

from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as ET

from harness.conformance.finding import Finding, Outcome
from harness.conformance.report.wording import (
    by_subject,
    check_entry,
    counts,
    is_shown,
    paragraph,
    place,
    printable,
)
from harness.conformance.subject import Subject

__all__ = ["document", "junit"]

_SUITE: Final = "cni-harness conformance"


def document(findings: Sequence[Finding], *, only_failures: bool = False) -> dict[str, object]:
    """Return the findings as a JSON object; the summary counts all of them, also those that are not shown.

    `must_failed` counts the violations of a MUST; these and the errors determine the exit code. `seconds` is the
    duration of the check.
    """
    shown = [_entry(finding) for finding in findings if is_shown(finding, only_failures=only_failures)]
    fatal = sum(finding.is_fatal for finding in findings)
    return {"checks": shown, "summary": {**counts(findings), "must_failed": fatal}}


def _entry(finding: Finding) -> dict[str, object]:
    return {
        "network": finding.subject.network.name,
        "plugin": finding.subject.type,
        "profile": str(finding.subject.profile),
        **check_entry(finding.check),
        "outcome": str(finding.outcome),
        "detail": finding.detail,
        "sent": finding.sent,
        "got": finding.got,
        "expected": finding.expected,
        "seconds": round(finding.seconds, 3),
    }


def junit(findings: Sequence[Finding]) -> bytes:
    """Return the findings as JUnit's XML: a testsuite for each plugin in its profile.

    A check that is not applicable, or was not examined, is skipped, with the reason. A warning has passed, with its
    text in system-out.
    """
    root = ET.Element("testsuites", {"name": _SUITE} | _figures(findings))
    for subject, found in by_subject(findings):
        _suite(root, subject, found)
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(root: ET.Element, subject: Subject, findings: Sequence[Finding]) -> None:
    network = printable(subject.network.name)
    suite = ET.SubElement(root, "testsuite", {"name": f"{network}: {subject}"} | _figures(findings))
    properties = ET.SubElement(suite, "properties")
    for name, value in (
        ("network", network),
        ("plugin", subject.type),
        ("profile", str(subject.profile)),
        ("cniVersion", subject.network.cni_version),
    ):
        ET.SubElement(properties, "property", name=name, value=value)
    for finding in findings:
        _case(suite, finding, f"{network}.{subject.type}.{subject.profile}")


def _case(suite: ET.Element, finding: Finding, classname: str) -> None:
    case = ET.SubElement(suite, "testcase", classname=classname, name=finding.check.id, time=f"{finding.seconds:.3f}")
    told = f"{place(finding.check.enforced[0])}\n{paragraph(finding)}"
    if finding.outcome is Outcome.FAIL:
        ET.SubElement(case, "failure", type=str(finding.check.level), message=finding.check.title).text = told
    elif finding.outcome is Outcome.ERROR:
        ET.SubElement(case, "error", type="error", message=printable(finding.detail)).text = told
    elif finding.outcome in {Outcome.NOT_APPLICABLE, Outcome.NOT_EXAMINED}:
        ET.SubElement(case, "skipped", message=printable(finding.detail))
    elif finding.outcome is Outcome.WARN:
        ET.SubElement(case, "system-out").text = f"warning ({finding.check.level}): {told}"
    elif finding.detail:
        ET.SubElement(case, "system-out").text = printable(finding.detail)


def _figures(findings: Sequence[Finding]) -> dict[str, str]:
    numbers = counts(findings)
    return {
        "tests": str(len(findings)),
        "failures": str(numbers[Outcome.FAIL]),
        "errors": str(numbers[Outcome.ERROR]),
        "skipped": str(numbers[Outcome.NOT_APPLICABLE] + numbers[Outcome.NOT_EXAMINED]),
        "time": f"{sum(finding.seconds for finding in findings):.3f}",
    }
