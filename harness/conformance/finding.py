"""The end of a check: its finding about a plugin, and the errors that it raises."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from harness.conformance.catalogue import Check
from harness.conformance.sentences import Level
from harness.conformance.subject import Subject
from harness.libcni.execute import Execution


class ViolationError(Exception):
    """The plugin violates a demand: `expected` is the demand, `got` the observation.

    `follows` is the ID of a check whose demand this one takes for granted: if that check fails, it is the cause.
    """

    is_of_time = False
    """Whether something took too long."""

    def __init__(self, expected: str, got: str, execution: Execution | None = None, *, follows: str = "") -> None:
        super().__init__(f"expected {expected}; got {got}")
        self.expected = expected
        self.got = got
        self.execution = execution
        """The execution that shows it; otherwise the last one of the plugin."""
        self.follows = follows

    def following(self, check: str) -> "ViolationError":
        """Return the same violation, which follows from that of another check."""
        return ViolationError(self.expected, self.got, self.execution, follows=check)


class SlowError(ViolationError):
    """The plugin took too long."""

    is_of_time = True


class UnexecutableError(ViolationError):
    """The kernel cannot execute the plugin's file."""


class NotApplicableError(Exception):
    """The demand does not apply to this plugin or this configuration; the message says why."""


class PredecessorError(NotApplicableError):
    """A plugin that is executed before the one under test fails, so the latter has no objects to work on."""


class Outcome(StrEnum):
    """The outcome of a check; a violation is a failure if it counts (harness.conformance.threshold), or a warning."""

    PASS = "pass"  # noqa: S105 -- no password
    FAIL = "fail"
    ERROR = "error"
    """The check itself did not finish, so nothing is known of the plugin."""
    WARN = "warn"
    NOT_APPLICABLE = "n/a"
    NOT_EXAMINED = "not examined"
    """Another finding, the cause, keeps the check from finding out anything."""


NOT_JUDGED: Final = frozenset({Outcome.NOT_APPLICABLE, Outcome.NOT_EXAMINED})
"""The outcomes that say nothing about the plugin but why."""


class KeptNode(NamedTuple):
    """The node of a failed check that stays: its name, and a command that enters it, with its own /var/lib/cni."""

    name: str
    state_dir: Path
    """The folder whose subfolder `nodes` has its files."""
    netns: str
    """The path of its network namespace; those of the containers follow."""
    containers: tuple[str, ...]
    enter: tuple[str, ...]


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
    kept: KeptNode | None = None
    """The node, if it stays for a look."""
    violation: ViolationError | None = None
    """The violation behind a failure or a warning."""

    @property
    def is_intermittent(self) -> bool:
        """Whether some runs of the check failed and others did not."""
        return 0 < self.failed_runs < self.runs

    @property
    def violates_must(self) -> bool:
        """Whether a MUST is violated."""
        return self.outcome is Outcome.FAIL and self.check.level is Level.MUST

    @property
    def is_red(self) -> bool:
        """Whether it is a failure that is not known, or a check that did not finish: the exit code is 1 then."""
        return (self.outcome is Outcome.FAIL and not self.known) or self.outcome is Outcome.ERROR


def is_red(findings: Sequence[Finding]) -> bool:
    """Tell whether one of the findings is red."""
    return any(finding.is_red for finding in findings)
