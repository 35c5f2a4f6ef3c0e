"""The finding of a check about a plugin."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from harness.conformance.catalogue import Check, Level
from harness.conformance.subject import Subject
from harness.libcni.execute import Execution

__all__ = ["Finding", "Outcome", "fatal"]


class Outcome(StrEnum):
    """The outcome of a check; a demand that is not binding gives a warning at most."""

    PASS = "pass"  # noqa: S105 -- no password
    FAIL = "fail"
    ERROR = "error"
    """The check itself did not finish, so nothing is known of the plugin."""
    WARN = "warn"
    NOT_APPLICABLE = "n/a"
    NOT_EXAMINED = "not examined"
    """Another finding, the cause, keeps the check from finding out anything."""


class Finding(NamedTuple):
    """One check's finding about one plugin. `sent` and `got` describe the execution that shows it, empty for a pass."""

    check: Check
    subject: Subject
    outcome: Outcome
    seconds: float
    detail: str = ""
    sent: str = ""
    got: str = ""
    expected: str = ""
    cause: str = ""
    """The ID of the check whose finding is the reason, if this one is not examined."""
    transcript: tuple[Execution, ...] = ()
    """The executions of the plugin under test, in their order."""
    runs: int = 1
    """How often the check ran."""
    failed_runs: int = 0
    """How many of these runs failed; fewer than `runs` mean that the fault is intermittent."""
    known: str = ""
    """The reason in the file of known failures that has this finding, or empty."""

    @property
    def is_intermittent(self) -> bool:
        """Whether some runs of the check failed and others did not."""
        return 0 < self.failed_runs < self.runs

    @property
    def is_fatal(self) -> bool:
        """Whether a MUST is violated."""
        return self.outcome is Outcome.FAIL and self.check.level is Level.MUST


def fatal(findings: Sequence[Finding]) -> bool:
    """Tell whether any MUST is violated, or is unknown because its check did not finish."""
    return any(finding.is_fatal or finding.outcome is Outcome.ERROR for finding in findings)
