"""The output of -v: each execution of a plugin, as it ends; with -vv in a form that can be pasted into a shell."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.cli.options import say
from harness.libcni.execute import Execution
from harness.libcni.reports import Delegation
from harness.output import UNPRINTABLE, printable
from skel.strict_json import decode_json

__all__ = ["in_shell", "trace_executions"]

_SHORT_ID = 12
_WITH_STREAMS = 2


def trace_executions(verbosity: int) -> Callable[[Execution], None] | None:
    """Return an observer for `Executor`: none for 0, a line for each execution for 1, with its streams from 2 on."""
    if not verbosity:
        return None

    def show(execution: Execution) -> None:
        if verbosity < _WITH_STREAMS:
            lines = [_heading(execution), *(f"  {_heading(each)}" for each in execution.delegations)]
        else:
            lines = [*in_shell(execution, execution.place)]
            for each in execution.delegations:
                lines += in_shell(each, execution.place, caller=execution.plugin)
        say("\n".join(lines))

    return show


def in_shell(run: Execution | Delegation, place: Sequence[str] = (), caller: str = "") -> Iterator[str]:
    """Yield the lines of a shell command that repeats a run, with the outcome in comments.

    `place` are the words of a command that runs another command in the plugin's environment.
    """
    yield f"# {_heading(run)}" + (f", called by {caller}" if caller else "")
    variables = [f"{name}={shlex.quote(value)}" for name, value in _protocol(run.environ).items()]
    words = [shlex.join([*place, "env"])] if place else []
    body = _indented(run.stdin, escape=_json_escape)
    end = "EOF"
    while end in body:
        end += "_"
    here = [f"{shlex.quote(run.path)} <<'{end}'"] if body else [f"{shlex.quote(run.path)} </dev/null"]
    yield printable(" \\\n  ".join(words + variables + here))
    yield from [*body, end] if body else []
    for name, stream in (("stdout", run.stdout), ("stderr", run.stderr)):
        if lines := _indented(stream, escape=printable):
            yield f"# {name}:"
            yield from (f"# {line}" for line in lines)


def _heading(run: Execution | Delegation) -> str:
    container_id = run.environ.get("CNI_CONTAINERID", "")[:_SHORT_ID] or "-"
    ending = f"exit {run.exit_code}" + (", time limit" if isinstance(run, Execution) and run.timed_out else "")
    name, verb = Path(run.path).name, run.environ.get("CNI_COMMAND", "")
    return printable(f"{container_id} {name} {verb} {run.seconds * 1000:.0f} ms {ending}")


def _protocol(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the protocol's variables, the verb first, as SPEC.md lists them; without this program's variables."""
    names = [name for name in environ if name.startswith("CNI_") and not name.startswith("CNI_HARNESS_")]
    return {name: environ[name] for name in sorted(names, key=lambda name: (name != "CNI_COMMAND", name))}


def _indented(stream: bytes, *, escape: Callable[[str], str]) -> list[str]:
    """Return the lines of a stream: indented if it is JSON, otherwise as they are."""
    try:
        document = decode_json(stream)
    except ValueError:
        return [printable(line) for line in stream.decode(errors="replace").splitlines()]
    return [escape(line) for line in json.dumps(document, indent=2, ensure_ascii=False).split("\n")]


def _json_escape(text: str) -> str:
    """Return JSON in which control characters of terminals, and half surrogate pairs, are JSON escapes."""
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
