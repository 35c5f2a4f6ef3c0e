"""The steps of a recorded run, as trees of spans from OpenTelemetry's JSON; the executions of plugins among them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.libcni.request import PROTOCOL_VARIABLES
from harness.output import json_escape, printable
from harness.shell_command import indented, shell_command
from harness.views.call_tree import duration
from harness.views.trace_formats import EXECUTIONS, TRACK
from harness.views.trace_steps import POLL
from skel.spans import Span
from skel.strict_json import decode_output

_CONTEXT: Final = 2
"""Unchanged lines around each change."""
_SIGNS: Final = {"+": "new", "-": "old", "@": "place"}


@dataclass(eq=False)
class Step:
    """A span, and the spans inside of it in the order of time."""

    span: Span
    inside: "Sequence[Step]"
    above: "Step | None" = None

    @property
    def end_ns(self) -> int:
        """The end in nanoseconds since 1970: of a step that did not end, that of its last inner step."""
        return max([self.span.end_ns or self.span.start_ns, *(step.end_ns for step in self.inside)])

    def all(self) -> "Iterator[Step]":
        """Yield the step and all steps inside of it, in the order in which they began."""
        yield self
        for step in self.inside:
            yield from step.all()


def repetitions(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the steps in groups: steps that follow each other and do the same are one group.

    A step that executes a plugin is alone, but for polls of STATUS.
    """
    groups: list[list[Step]] = []
    for step in steps:
        executes = any(inner.span.name.startswith(EXECUTIONS) for inner in outside_polls(step))
        if groups and not executes and _does(groups[-1][0]) == _does(step):
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def outside_polls(step: Step) -> Iterator[Step]:
    """Yield a step and the steps inside of it, without those inside of polls of STATUS."""
    yield step
    if step.span.name != POLL:
        for inner in step.inside:
            yield from outside_polls(inner)


def _does(step: Step) -> tuple[object, ...]:
    """Return all that a reader sees of a step and its inner steps, but for times."""
    return (step.span.name, words_of(step), step.span.error, tuple(_does(inner) for inner in step.inside))


def words_of(step: Step) -> tuple[str, str]:
    """Return the attribute that says most of a step, and its value; two empty texts if none does."""
    attributes = step.span.attributes
    for key in ("pod", "network", "container", "plugin", "path", "doing", "addresses", "phase"):
        value = attributes.get(key)
        if value:
            return key, printable("; ".join(map(str, value)) if isinstance(value, list) else str(value))
    return "", ""


def read_spans(document: Mapping[str, Any]) -> list[Span]:
    """Return the spans of an `otlp_document`, in the order of time. Raises ValueError, KeyError, TypeError."""
    found = []
    for resource in document["resourceSpans"]:
        pid = int(_attributes(resource["resource"]["attributes"])["process.pid"])
        found += [_span(each, pid) for scope in resource["scopeSpans"] for each in scope["spans"]]
    # The sort is stable: a parent comes before its children in the file.
    return sorted(found, key=lambda span: span.start_ns)


def _span(written: Mapping[str, Any], pid: int) -> Span:
    span = Span(
        written["name"], written["traceId"], written["spanId"], written.get("parentSpanId", ""),
        int(written["startTimeUnixNano"]), pid, _attributes(written["attributes"]),
    )  # fmt: skip
    span.end_ns = int(written["endTimeUnixNano"])
    span.track = str(span.attributes.pop(TRACK, ""))
    span.error = written.get("status", {}).get("message", "")
    return span


def _attributes(written: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {each["key"]: _value(each["value"]) for each in written}


def _value(written: Mapping[str, Any]) -> Any:  # noqa: ANN401 -- a value of any type
    ((kind, value),) = written.items()
    if kind == "arrayValue":
        return [_value(each) for each in value["values"]]
    return int(value) if kind == "intValue" else value


def steps_of(spans: Sequence[Span], pod: str) -> list[Step]:
    """Return the outermost steps of a run, without the steps of other pods than `pod`, such as `default/pod1`."""
    inside: dict[str, list[Span]] = {}
    known = {span.span_id for span in spans}
    for span in spans:
        inside.setdefault(span.parent_id if span.parent_id in known else "", []).append(span)
    title, name = pod, pod.partition("/")[2]

    def step(span: Span, above: Step | None) -> Step:
        made = Step(span, (), above)
        made.inside = [step(each, made) for each in inside.get(span.span_id, []) if _is_of(each, title, name)]
        return made

    return [step(span, None) for span in inside.get("", [])]


def _is_of(span: Span, title: str, name: str) -> bool:
    """Tell whether a span belongs to a pod, or says of no pod."""
    if told := _pod_of(span):
        return told == title
    # A track is the name of a pod, and a container's may follow.
    return not span.track or span.track.partition("/")[0] == name


def pods_of(spans: Iterable[Span]) -> list[str]:
    """Return the pods that spans name, such as `default/pod1`, each once."""
    return list(dict.fromkeys(pod for span in spans if (pod := _pod_of(span))))


def _pod_of(span: Span) -> str:
    if isinstance(pod := span.attributes.get("pod"), str) and "/" in pod:
        return pod
    pairs = dict(pair.partition("=")[::2] for pair in str(span.attributes.get("CNI_ARGS", "")).split(";"))
    name = pairs.get("K8S_POD_NAME", "")
    return f"{pairs.get('K8S_POD_NAMESPACE', 'default')}/{name}" if name else ""


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
    times: int = 1
    """The number of executions with the same documents and the same outcome, of STATUS."""


def executed_plugins(steps: Sequence[Step], place: Sequence[str]) -> list[ExecutedPlugin]:
    """Return the executions in the order of time; `place` are the words that run a command on the node."""
    found = [step for outer in steps for step in outer.all() if step.span.name.startswith(EXECUTIONS)]
    return [_execution(step, place) for step in found]


def distinct_executions(executions: Sequence[ExecutedPlugin]) -> tuple[list[ExecutedPlugin], dict[str, str]]:
    """Return the executions, those of STATUS that differ in time alone once; and the anchor that each anchor became."""
    kept: dict[object, ExecutedPlugin] = {}
    anchors = {}
    for each in executions:
        key = each._replace(anchor="", time="") if each.verb == "STATUS" else each
        if key in kept:
            kept[key] = kept[key]._replace(times=kept[key].times + 1)
        else:
            kept[key] = each
        anchors[each.anchor] = kept[key].anchor
    return list(kept.values()), anchors


def document_lines(text: str) -> str:
    """Return a document for people: indented if it is JSON, otherwise as it is, without control characters."""
    return "\n".join(indented(text.encode(errors="replace"), escape=json_escape))


def _execution(step: Step, place: Sequence[str]) -> ExecutedPlugin:
    span = step.span
    texts = {name: str(span.attributes.get(name, "")) for name in ("path", "stdin", "stdout", "stderr")}
    # A delegate has the protocol's variables of the plugin that called it.
    attributes = _attributes_around(step, "ExecPlugin")
    environ = {name: str(attributes[name]) for name in PROTOCOL_VARIABLES if name in attributes}
    return ExecutedPlugin(
        anchor=f"call-{span.span_id}",
        plugin=printable(Path(texts["path"]).name),
        verb=environ.get("CNI_COMMAND", ""),
        caller=printable(Path(str(_attributes_around(step.above, EXECUTIONS).get("path", ""))).name),
        time=duration(span.end_ns - span.start_ns),
        exit_code=str(span.attributes.get("exit_code", "")),
        error=printable(span.error),
        command="\n".join(shell_command(texts["path"], environ, texts["stdin"].encode(errors="replace"), place)),
        stdout=document_lines(texts["stdout"]),
        stderr=document_lines(texts["stderr"]),
        changes=tuple(_changes(texts["stdin"], texts["stdout"])),
        reports_steps=span.attributes.get("reports_steps") is not False,
    )


def _attributes_around(step: Step | None, names: str | tuple[str, ...]) -> Mapping[str, object]:
    """Return the attributes of the step, or of the nearest one around it, whose name begins so, or none."""
    while step is not None and not step.span.name.startswith(names):
        step = step.above
    return step.span.attributes if step is not None else {}


def _changes(stdin: str, stdout: str) -> Iterator[DocumentLine]:
    before, after = decoded_object(stdin).get("prevResult"), decoded_object(stdout)
    if not isinstance(before, dict) or "cniVersion" not in after or "code" in after:
        return
    from difflib import unified_diff  # a verb under --record does without

    compared = unified_diff(_plain_lines(before), _plain_lines(after), lineterm="", n=_CONTEXT)
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
