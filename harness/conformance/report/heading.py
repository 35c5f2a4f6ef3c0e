"""The top of every report: the verdict in one line, and the circumstances of the run."""

import shlex
from collections.abc import Iterator, Sequence

from harness.conformance.examination import Examination
from harness.conformance.features import feature_of, standing_of_all
from harness.conformance.finding import Finding, Outcome
from harness.output import printable


def verdict(findings: Sequence[Finding]) -> str:
    """Return the verdict on one plugin, or on several: the worst of them counts, in core and in each feature.

    `core` is "pass" or "fail"; "fail (known)" if each of its failures is known. It is "partial" if nothing failed, but
    a MUST of the plugin's kind was not examined. `extended` counts the features that passed, and those that the
    plugins declare. The versions are those that the plugins were examined in.
    """
    if not findings:
        return "nothing was examined"
    found = standing_of_all(findings)
    versions = " to ".join(dict.fromkeys((found.versions[0], found.versions[-1])))
    extended = f"{len(found.passed)} of {len(found.extended)}" if found.extended else "none"
    failed = [each for each in findings if each.outcome is Outcome.FAIL and feature_of(each.check) is None]
    known = " (known)" if failed and all(each.known for each in failed) else ""
    return f"CNI {versions} core: {found.core}{known}; extended: {extended}"


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
    for file in examination.files:
        about = f", {printable(file.about)}" if file.about else ""
        yield "executable", f"{printable(str(file.path))}, sha256 {file.sha256 or 'unknown'}{about}"
    yield "kernel", examination.kernel
    yield "date", examination.began.isoformat(timespec="seconds")
    yield "command", printable(shlex.join(examination.command))
    yield "privileges", examination.privileges
