"""Facts about a finding besides its outcome: intermittence, a known failure, the command that repeats it."""

from collections.abc import Iterator

from harness.conformance.examination import Examination
from harness.conformance.finding import Finding
from harness.conformance.report.wording import printable
from harness.conformance.reproduce import command_of

__all__ = ["notes", "reason"]


def notes(finding: Finding, examination: Examination) -> Iterator[tuple[str, str]]:
    """Yield facts in words, each with its name."""
    if finding.is_intermittent:
        yield "intermittent", f"{finding.failed_runs} of {finding.runs} runs failed"
    if finding.known:
        yield "known", printable(finding.known)
    yield "reproduce", printable(command_of(finding, examination.arguments))


def reason(finding: Finding) -> str:
    """Return the reason for the outcome of a check that is not told in full, on one line; empty for none."""
    cause = f" (see {finding.cause})" if finding.cause else ""
    return " ".join(f"{printable(finding.detail)}{cause}".split())
