"""The executions of plugins in a recorded run: a command to paste, the documents, and changes of the result."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.output import json_escape, printable
from harness.shell_command import indented, shell_command
from harness.views.call_tree import duration
from harness.views.run_spans import Step, environment_of
from harness.views.trace_formats import EXECUTIONS
from skel.strict_json import decode_output

_CONTEXT: Final = 2
"""Unchanged lines around each change."""
_SIGNS: Final = {"+": "new", "-": "old", "@": "place"}


class DocumentLine(NamedTuple):
    """A line of a comparison; `kind` is "new", "old", "place" or empty."""

    kind: str
    text: str


class ExecutedPlugin(NamedTuple):
    """One execution. `anchor` is the ID of its span; `caller` names the plugin that called it, empty for a runtime."""

    anchor: str
    plugin: str
    verb: str
    caller: str
    time: str
    exit_code: str
    error: str
    command: str
    stdout: str
    stderr: str
    changes: tuple[DocumentLine, ...]
    """The differences between `prevResult` and the result, of an ADD in a chain."""
    reports_steps: bool


def executed_plugins(steps: Sequence[Step], place: Sequence[str]) -> list[ExecutedPlugin]:
    """Return the executions in the order of time; `place` are the words that run a command on the node."""
    found = [step for outer in steps for step in outer.all() if step.span.name.startswith(EXECUTIONS)]
    return [_execution(step, place) for step in found]


def document_lines(text: str) -> str:
    """Return a document for people: indented if it is JSON, otherwise as it is, without control characters."""
    return "\n".join(indented(text.encode(errors="replace"), escape=json_escape))


def _execution(step: Step, place: Sequence[str]) -> ExecutedPlugin:
    span = step.span
    texts = {name: str(span.attributes.get(name, "")) for name in ("path", "stdin", "stdout", "stderr")}
    environ = environment_of(step)
    return ExecutedPlugin(
        anchor=f"call-{span.span_id}",
        plugin=printable(Path(texts["path"]).name),
        verb=environ.get("CNI_COMMAND", ""),
        caller=_caller(step),
        time=duration(span.end_ns - span.start_ns),
        exit_code=str(span.attributes.get("exit_code", "")),
        error=printable(span.error),
        command="\n".join(shell_command(texts["path"], environ, texts["stdin"].encode(errors="replace"), place)),
        stdout=document_lines(texts["stdout"]),
        stderr=document_lines(texts["stderr"]),
        changes=tuple(_changes(texts["stdin"], texts["stdout"])),
        reports_steps=span.attributes.get("reports_steps") is not False,
    )


def _caller(step: Step) -> str:
    outer = step.above
    while outer is not None:
        if outer.span.name.startswith(EXECUTIONS):
            return printable(Path(str(outer.span.attributes.get("path", ""))).name)
        outer = outer.above
    return ""


def _changes(stdin: str, stdout: str) -> Iterator[DocumentLine]:
    before, after = decoded_object(stdin).get("prevResult"), decoded_object(stdout)
    if not isinstance(before, dict) or "cniVersion" not in after or "code" in after:
        return
    compared = difflib.unified_diff(_plain_lines(before), _plain_lines(after), lineterm="", n=_CONTEXT)
    for line in [*compared][2:]:
        yield DocumentLine(_SIGNS.get(line[:1], ""), line)


def _plain_lines(document: Mapping[str, Any]) -> list[str]:
    return [json_escape(line) for line in json.dumps(document, indent=2, ensure_ascii=False).split("\n")]


def decoded_object(text: object) -> dict[str, Any]:
    """Return the JSON object that a text is, an empty one if it is none."""
    try:
        document = decode_output(str(text).encode(errors="replace"))
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
