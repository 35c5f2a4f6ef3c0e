"""How a check ends: it returns, or raises one of these."""

from harness.libcni.execute import Execution


class ViolationError(Exception):
    """The plugin violates a demand: `expected` is the demand, `got` the observation.

    `follows` is the ID of a check whose demand this one takes for granted: if that check fails, it is the cause.
    """

    def __init__(self, expected: str, got: str, execution: Execution | None = None, *, follows: str = "") -> None:
        super().__init__(f"expected {expected}; got {got}")
        self.expected = expected
        self.got = got
        self.execution = execution
        """The execution that shows it; otherwise the last one of the plugin."""
        self.follows = follows


class UnexecutableError(ViolationError):
    """The kernel cannot execute the plugin's file."""


class NotApplicableError(Exception):
    """The demand does not apply to this plugin or this configuration; the message says why."""


class PredecessorError(NotApplicableError):
    """A plugin that is executed before the one under test fails, so the latter has no objects to work on."""
