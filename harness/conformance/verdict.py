"""How a check ends: it returns, or raises one of these."""

from harness.libcni.execute import Execution

__all__ = ["NotApplicableError", "PredecessorError", "ViolationError"]


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
