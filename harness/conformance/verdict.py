"""How a check ends: it returns, or raises one of these."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from harness.conformance.catalogue import Check, Level
from harness.conformance.subject import Subject
from harness.execute import Execution

__all__ = ["Finding", "NotApplicableError", "Outcome", "PredecessorError", "ViolationError", "fatal"]


class ViolationError(Exception):
    """The plugin does not do as demanded: what was `expected`, and what was seen."""

    def __init__(self, expected: str, got: str, execution: Execution | None = None) -> None:
        super().__init__(f"expected {expected}; got {got}")
        self.expected = expected
        self.got = got
        self.execution = execution
        """The one that shows it; otherwise the last one of the plugin."""


class NotApplicableError(Exception):
    """The demand does not reach this plugin or this configuration; the message says why."""


class PredecessorError(NotApplicableError):
    """A plugin that is executed before the one under test fails, and leaves that nothing to work on."""


class Outcome(StrEnum):
    """What a check found; a demand that is not binding gives a warning at most."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    ERROR = "error"
    """The check itself came to no end, which says nothing of the plugin."""
    WARN = "warn"
    NOT_APPLICABLE = "n/a"


class Finding(NamedTuple):
    """What one check found of one plugin. `sent` and `got` tell of the execution that shows it, empty for a pass."""

    check: Check
    subject: Subject
    outcome: Outcome
    seconds: float
    detail: str = ""
    sent: str = ""
    got: str = ""
    expected: str = ""

    @property
    def is_fatal(self) -> bool:
        """Whether a MUST is violated."""
        return self.outcome is Outcome.FAIL and self.check.level is Level.MUST


def fatal(findings: Sequence[Finding]) -> bool:
    """Tell whether any MUST is violated, or not known to be kept since a check came to no end."""
    return any(finding.is_fatal or finding.outcome is Outcome.ERROR for finding in findings)
