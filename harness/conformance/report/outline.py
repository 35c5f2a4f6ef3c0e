"""The outline of every report: the verdict, the circumstances of the run, and the findings of each plugin.

Of a plugin the urgent findings come first, and the others by their reasons.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness.conformance.engine.examination import Examination
from harness.conformance.finding import Finding, Outcome, is_red
from harness.conformance.report.features import FeatureState, Standing, feature_of, standing, standing_of_all
from harness.conformance.report.wording import TOLD, by_subject, counts, reason, tally
from harness.conformance.subject import Subject
from harness.conformance.threshold import effects
from harness.output import printable


def verdict(findings: Sequence[Finding]) -> str:
    """Return the verdict on one plugin, or on several: the worst of them counts, in each respect.

    It begins with "fail" if the exit code is 1 because of these findings, otherwise with "pass". `works` and `core` are
    "pass" or "fail"; "fail (known)" if each of the failures is known. They are "partial" if nothing failed, but a check
    was not examined. `extended` counts the features that passed, and those that the plugins declare. The versions are
    those that the plugins were examined in.
    """
    if not findings:
        return "nothing was examined"
    found = standing_of_all(findings)
    works = _in_words(found.works, [each for each in findings if each.check.id in effects()])
    core = _in_words(found.core, [each for each in findings if feature_of(each.check) is None])
    versions = " to ".join(dict.fromkeys((found.versions[0], found.versions[-1])))
    extended = f"{len(found.passed)} of {len(found.extended)}" if found.extended else "none"
    said = "fail" if is_red(findings) else "pass"
    return f"{said}: CNI {versions} works: {works}; core: {core}; extended: {extended}"


def _in_words(state: FeatureState, findings: Sequence[Finding]) -> str:
    failed = [each for each in findings if each.outcome in {Outcome.FAIL, Outcome.WARN}]
    return f"{state} (known)" if failed and all(each.known for each in failed) else str(state)


def heading(examination: Examination) -> list[tuple[str, str]]:
    """Return the facts in words, each with its name: first whether the run ended early, then the verdict."""
    sentence = cut_short(examination)
    incomplete = [("incomplete", sentence)] if sentence else []
    return [*incomplete, ("verdict", verdict(examination.findings)), *circumstances(examination)]


def cut_short(examination: Examination) -> str:
    """Return a sentence that says why the run ended early, or an empty text."""
    if not examination.cut_short:
        return ""
    return f"The run ended before its last check: {printable(examination.cut_short)}. Checks are missing here."


def circumstances(examination: Examination) -> Iterator[tuple[str, str]]:
    """Yield the circumstances in words, each with its name: versions, executables, machine, date and command line."""
    yield "suite", f"{examination.suite_version}, for SPEC.md {examination.spec_version}"
    yield "fail on", examination.fail_on
    yield "source", examination.source
    if examination.build:
        yield "build", printable(examination.build)
    for file in examination.files:
        about = f", {printable(file.about)}" if file.about else ""
        yield "executable", f"{printable(str(file.path))}, sha256 {file.sha256 or 'unknown'}{about}"
    yield "kernel", examination.kernel
    yield "date", examination.began.isoformat(timespec="seconds")
    yield "command", printable(shlex.join(examination.command))
    yield "privileges", examination.privileges


def steps(examination: Examination) -> Iterator[str]:
    """Yield the steps that repeat the run, for a stranger; the last one is the command line."""
    yield f"Have the suite: {examination.source}."
    unknown = "Have the plugins: the report does not tell how they were built, but the SHA-256 of each is above."
    yield f"Build the plugins: {printable(examination.build)}." if examination.build else unknown
    folder = "in the folder with the network lists that it names"
    yield f"Execute this as {'root' if examination.privileges != 'user namespace' else 'any user'}, {folder}:"


class PluginReport(NamedTuple):
    """One plugin in its place, and all findings about it."""

    subject: Subject
    findings: Sequence[Finding]
    title: str
    """The plugin in words: `bridge (interface), network my-network`."""
    verdict: str
    """The verdict in one line."""
    standing: Standing
    """The state of core and of the features."""
    tally: str
    """The number of findings with each outcome, in words."""
    told: list[Finding]
    """The findings that are told in full: violations of a MUST, other failures, errors, warnings."""
    passed: list[str]
    """The IDs of the checks that passed."""
    not_examined: dict[str, list[str]]
    """The IDs of the checks that were not examined, by their reason."""
    not_applicable: dict[str, list[str]]
    """The IDs of the checks that do not apply, by their reason."""
    left_for_good: Sequence[str]
    """The things that its first ADD leaves on the node for good: shared by all containers, and no fault."""


def plugin_reports(examination: Examination) -> list[PluginReport]:
    """Return the reports of all plugins of a run, in their order."""
    return [_report(*found, examination) for found in by_subject(examination.findings)]


def _report(subject: Subject, findings: Sequence[Finding], examination: Examination) -> PluginReport:
    told = [finding for finding in findings if finding.outcome in TOLD or finding.is_intermittent]
    return PluginReport(
        subject,
        findings,
        title=printable(subject.place),
        verdict=verdict(findings),
        standing=standing(findings),
        tally=tally(counts(findings)),
        told=sorted(told, key=lambda each: (not each.violates_must, [*TOLD, each.outcome].index(each.outcome))),
        passed=[finding.check.id for finding in findings if finding.outcome is Outcome.PASS],
        not_examined=_by_reason(findings, Outcome.NOT_EXAMINED),
        not_applicable=_by_reason(findings, Outcome.NOT_APPLICABLE),
        left_for_good=tuple(map(printable, examination.left_for_good.get(subject.place, ()))),
    )


def _by_reason(findings: Sequence[Finding], outcome: Outcome) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for finding in findings:
        if finding.outcome is outcome:
            grouped.setdefault(reason(finding), []).append(finding.check.id)
    return grouped
