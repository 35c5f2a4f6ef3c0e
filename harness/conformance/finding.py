"""The finding of a check about a plugin."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from harness.conformance.catalogue import Check, Level
from harness.conformance.subject import Subject

__all__ = ["Finding", "Outcome", "fatal"]


class Outcome(StrEnum):
    """The outcome of a check; a demand that is not binding gives a warning at most."""

    PASS = "pass"  # noqa: S105 -- no password
    FAIL = "fail"
    ERROR = "error"
    """The check itself did not finish, so nothing is known of the plugin."""
    WARN = "warn"
    NOT_APPLICABLE = "n/a"


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
    is_unable: bool = False
    """Nothing can be found out about the plugin, because its ordinary ADD fails."""

    @property
    def is_fatal(self) -> bool:
        """Whether a MUST is violated."""
        return self.outcome is Outcome.FAIL and self.check.level is Level.MUST


def fatal(findings: Sequence[Finding]) -> bool:
    """Tell whether any MUST is violated, or is unknown because its check did not finish."""
    return any(finding.is_fatal or finding.outcome is Outcome.ERROR for finding in findings)
