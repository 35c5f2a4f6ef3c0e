"""The report for programs: a JSON object, described by report.schema.json."""

import json
from collections.abc import Sequence

from harness.conformance.engine.examination import Examination
from harness.conformance.finding import Finding, Outcome
from harness.conformance.report.features import Standing
from harness.conformance.report.outline import PluginReport, plugin_reports, verdict
from harness.conformance.report.transcript import calls
from harness.conformance.report.wording import TOLD, check_entry, counts, is_shown, kept_facts, subject_entry
from harness.conformance.reproduce import command_of


def to_json(examination: Examination) -> str:
    """Return the document as text in ASCII: no character of a plugin's output has an effect where it is shown."""
    return json.dumps(document(examination), indent=2) + "\n"


def document(
    examination: Examination, *, only_failures: bool = False, every_transcript: bool = False
) -> dict[str, object]:
    """Return the run as a JSON object; its summary counts all findings, also those that are not shown.

    `known` counts the failures that are known; the other failures, and the errors, determine the exit code.
    `must_failed` counts the violations of a MUST that are not known, `must_known` the others. `kept` is the node that
    stays, null for none. `seconds` is the duration of the check. `transcript` is empty for a check that passed or did
    not apply, unless `every_transcript`.
    """
    findings = examination.findings
    shown = [finding for finding in findings if is_shown(finding, only_failures=only_failures)]
    return {
        **header(examination),
        "plugins": [_plugin(each) for each in plugin_reports(examination)],
        "checks": [_entry(finding, examination, every_transcript=every_transcript) for finding in shown],
        "summary": summary(findings),
    }


def header(examination: Examination) -> dict[str, object]:
    """Return the circumstances of the run as JSON objects."""
    return {
        "suite_version": examination.suite_version,
        "spec_version": examination.spec_version,
        "verdict": verdict(examination.findings),
        "fail_on": str(examination.fail_on),
        "source": examination.source,
        "build": examination.build,
        "cut_short": examination.cut_short,
        "date": examination.began.isoformat(timespec="seconds"),
        "kernel": examination.kernel,
        "privileges": examination.privileges,
        "command": list(examination.command),
        "files": [
            {"type": each.type, "path": str(each.path), "sha256": each.sha256, "about": each.about}
            for each in examination.files
        ],
    }


def summary(findings: Sequence[Finding]) -> dict[str, int]:
    """Return the number of findings with each outcome, of known failures, and of violated MUSTs, new and known."""
    failed = [finding for finding in findings if finding.outcome is Outcome.FAIL]
    known = sum(finding.known != "" for finding in failed)
    must_known = sum(finding.known != "" for finding in failed if finding.violates_must)
    must_failed = sum(finding.violates_must for finding in failed) - must_known
    return {**counts(findings), "known": known, "must_failed": must_failed, "must_known": must_known}


def standing_entry(found: Standing) -> dict[str, object]:
    """Return whether it works, core and extended conformance as a JSON object."""
    states = {"works": str(found.works), "core": str(found.core)}
    return {**states, "extended": {name: str(state) for name, state in found.extended.items()}}


def _plugin(report: PluginReport) -> dict[str, object]:
    return {
        **subject_entry(report.subject),
        "cni_version": report.subject.network.cni_version,
        "verdict": report.verdict,
        **standing_entry(report.standing),
        "left_for_good": list(report.left_for_good),
        "summary": summary(report.findings),
    }


def _entry(finding: Finding, examination: Examination, *, every_transcript: bool) -> dict[str, object]:
    has_transcript = every_transcript or finding.outcome in TOLD or finding.is_intermittent
    return {
        **subject_entry(finding.subject),
        **check_entry(finding.check),
        "outcome": str(finding.outcome),
        "detail": finding.detail,
        "sent": finding.sent,
        "got": finding.got,
        "expected": finding.expected,
        "cause": finding.cause,
        "runs": finding.runs,
        "failed_runs": finding.failed_runs,
        "known": finding.known,
        "reproduce": command_of(finding, examination.arguments),
        "kept": _kept(finding, examination),
        "seconds": round(finding.seconds, 3),
        "transcript": calls(finding) if has_transcript else [],
    }


def _kept(finding: Finding, examination: Examination) -> dict[str, object] | None:
    kept = finding.kept
    if kept is None:
        return None
    commands = {name: fact for name, fact in kept_facts(finding, examination.arguments) if name != "node"}
    return {"name": kept.name, "netns": kept.netns, "containers": list(kept.containers), **commands}
