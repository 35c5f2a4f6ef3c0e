"""The output of -v: each execution of a plugin, as it ends; with -vv in a form that can be pasted into a shell."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.libcni.execute import Execution
from harness.libcni.reports import Delegation
from harness.output import printable, say
from harness.shell_command import indented, shell_command

_SHORT_ID = 12
_WITH_STREAMS = 2


def execution_logger(verbosity: int) -> Callable[[Execution], None] | None:
    """Return an observer for `Executor`: none for 0, a line for each execution for 1, with its streams from 2 on."""
    if not verbosity:
        return None

    def show(execution: Execution) -> None:
        if verbosity < _WITH_STREAMS:
            lines = [_heading(execution), *(f"  {_heading(each)}" for each in execution.delegations)]
        else:
            lines = [*_in_shell(execution, execution.place)]
            for each in execution.delegations:
                lines += _in_shell(each, execution.place, caller=execution.plugin)
        say("\n".join(lines))

    return show


def _in_shell(run: Execution | Delegation, place: Sequence[str] = (), caller: str = "") -> Iterator[str]:
    """Yield the lines of a shell command that repeats a run, with the outcome in comments.

    `place` are the words of a command that runs another command in the plugin's environment.
    """
    yield f"# {_heading(run)}" + (f", called by {caller}" if caller else "")
    yield from shell_command(run.path, run.environ, run.stdin, place)
    for name, stream in (("stdout", run.stdout), ("stderr", run.stderr)):
        if lines := indented(stream, escape=printable):
            yield f"# {name}:"
            yield from (f"# {line}" for line in lines)


def _heading(run: Execution | Delegation) -> str:
    container_id = run.environ.get("CNI_CONTAINERID", "")[:_SHORT_ID] or "-"
    ending = f"exit {run.exit_code}" + (", time limit" if isinstance(run, Execution) and run.timed_out else "")
    name, verb = Path(run.path).name, run.environ.get("CNI_COMMAND", "")
    return printable(f"{container_id} {name} {verb} {run.seconds * 1000:.0f} ms {ending}")
