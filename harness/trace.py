"""What -v shows: each execution of a plugin, as it ends."""

from collections.abc import Callable

from harness.execute import Execution
from harness.options import say

__all__ = ["trace_executions"]

_SHORT_ID = 12
_WITH_STREAMS = 2


def trace_executions(verbosity: int) -> Callable[[Execution], None] | None:
    """Return an observer for `Executor`: none for 0, a line for each execution for 1, with its streams from 2 on."""
    if not verbosity:
        return None

    def show(execution: Execution) -> None:
        container_id = execution.environ.get("CNI_CONTAINERID", "")[:_SHORT_ID] or "-"
        ending = f"exit {execution.exit_code}" + (", time limit" if execution.timed_out else "")
        lines = [f"{container_id} {execution.plugin} {execution.verb} {execution.seconds * 1000:.0f} ms {ending}"]
        if verbosity >= _WITH_STREAMS:
            for name in ("stdin", "stdout", "stderr"):
                text = getattr(execution, name).decode(errors="backslashreplace")
                lines += [f"  {name}: {line}" for line in text.splitlines()]
        say("\n".join(lines))

    return show
