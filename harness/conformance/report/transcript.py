"""All calls of a check: commands that can be pasted into a shell, and the same as a document for programs."""

from collections.abc import Iterator
from typing import Final

from harness.conformance.finding import Finding
from harness.libcni.execute import Execution
from harness.output import printable, seconds
from harness.shell_command import indented, shell_command

LONGEST: Final = 4096
"""Bytes of each output that are shown."""
_LONGEST_STDIN: Final = 65536
"""Bytes of standard input that are shown: the command is useless without the rest."""
_SHORT_ID: Final = 12


def transcript(finding: Finding) -> str:
    """Return the calls as commands for a shell, each with its outcome in comments; empty if there were none.

    A command has the variables CNI_* of its call, and its standard input. Other variables, the working folder and
    closed descriptors are those of the shell. The namespaces of the calls are gone.
    """
    calls = enumerate(finding.transcript, 1)
    return "\n\n".join("\n".join(_lines(number, execution)) for number, execution in calls)


def calls(finding: Finding) -> list[dict[str, object]]:
    """Return the calls as JSON objects, in their order.

    `environment` has the variables CNI_*. `stdin`, `stdout` and `stderr` are text; bytes that are not UTF-8 are
    replaced. A stream that is too long is cut, and `cut` has its length in bytes. `exit_code` is negative for a signal.
    """
    return [_entry(execution) for execution in finding.transcript]


def _lines(number: int, execution: Execution) -> Iterator[str]:
    container = execution.environ.get("CNI_CONTAINERID", "")[:_SHORT_ID] or "no container"
    yield printable(f"# {number}. {execution.plugin} {execution.verb or 'without a verb'}, {container}")
    stdin, rest = _cut(execution.stdin, _LONGEST_STDIN)
    yield from shell_command(execution.path, execution.environ, stdin, execution.place)
    if rest:
        yield f"# … and {rest} more bytes on standard input"
    if not _is_text(stdin):
        yield "# Standard input has bytes that are not UTF-8; they are replaced here."
    yield f"# {_ending(execution)}"
    for name, stream in (("stdout", execution.stdout), ("stderr", execution.stderr)):
        if stream:
            shown, rest = _cut(stream, LONGEST)
            yield f"# {name}:"
            yield from (f"#   {line}" for line in indented(shown, escape=printable))
            if rest:
                yield f"#   … and {rest} more bytes"


def _ending(execution: Execution) -> str:
    code = execution.exit_code
    words = [f"signal {-code}" if code < 0 else f"exit code {code}", f"after {seconds(execution.seconds)}"]
    if execution.timed_out:
        words.append("killed at the time limit")
    if execution.flooded:
        words.append("killed for the length of its output")
    if execution.output_held:
        words.append("a process that it left behind holds its output open")
    if not execution.stdout and not execution.stderr:
        words.append("no output")
    return ", ".join(words)


def _entry(execution: Execution) -> dict[str, object]:
    streams = {"stdin": execution.stdin, "stdout": execution.stdout, "stderr": execution.stderr}
    longest = {"stdin": _LONGEST_STDIN}
    shown = {name: _cut(stream, longest.get(name, LONGEST))[0] for name, stream in streams.items()}
    cut = {name: len(stream) for name, stream in streams.items() if len(shown[name]) < len(stream)}
    return {
        "plugin": execution.plugin,
        "path": execution.path,
        "verb": execution.verb,
        "environment": {name: value for name, value in sorted(execution.environ.items()) if name.startswith("CNI_")},
        **{name: stream.decode(errors="replace") for name, stream in shown.items()},
        "exit_code": execution.exit_code,
        "seconds": round(execution.seconds, 3),
        "ending": _ending(execution),
        **({"cut": cut} if cut else {}),
    }


def _cut(stream: bytes, length: int) -> tuple[bytes, int]:
    """Return the beginning of a stream, without half a character, and the number of bytes after it."""
    if len(stream) <= length:
        return stream, 0
    shown = stream[:length]
    while shown and stream[len(shown)] & 0xC0 == 0x80:  # noqa: PLR2004 -- a byte that continues a character of UTF-8
        shown = shown[:-1]
    return shown, len(stream) - len(shown)


def _is_text(stream: bytes) -> bool:
    try:
        stream.decode()
    except UnicodeDecodeError:
        return False
    return True
