"""The top of every report: the verdict, and the circumstances of the run."""

import shlex
from collections.abc import Iterator

from harness.conformance.examination import Examination
from harness.conformance.report.verdict_line import verdict
from harness.output import printable


def heading(examination: Examination) -> list[tuple[str, str]]:
    """Return the facts in words, each with its name: first whether the run ended early, then the verdict."""
    return [*_cut_short(examination), ("verdict", verdict(examination.findings)), *circumstances(examination)]


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


def _cut_short(examination: Examination) -> Iterator[tuple[str, str]]:
    if sentence := cut_short(examination):
        yield "incomplete", sentence
