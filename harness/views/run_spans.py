"""The steps of a recorded run: spans, read from OpenTelemetry's JSON, as trees; and those of one pod."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from harness.libcni.attachment import PROTOCOL_VARIABLES
from harness.views.trace_formats import TRACK
from skel.spans import Span

_PROGRAMS: Final = ("iptables", "ip6tables", "DBus")


class Step:
    """A span, and the spans inside of it in the order of time."""

    def __init__(self, span: Span, inside: "Sequence[Step]", above: "Step | None" = None) -> None:
        self.span = span
        self.inside = inside
        self.above = above

    @property
    def end_ns(self) -> int:
        """The end in nanoseconds since 1970: of a step that did not end, that of its last inner step."""
        return max([self.span.end_ns or self.span.start_ns, *(step.end_ns for step in self.inside)])

    def all(self) -> "Iterator[Step]":
        """Yield the step and all steps inside of it, in the order in which they began."""
        yield self
        for step in self.inside:
            yield from step.all()


def is_kernel(span: Span) -> bool:
    """Tell whether a span is a system call with messages, or a program that changes the kernel's rules."""
    return "messages" in span.attributes or span.name.startswith(_PROGRAMS)


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


def environment_of(step: Step) -> dict[str, str]:
    """Return the protocol's variables of an execution; a delegate has those of the plugin that called it."""
    outer: Step | None = step
    while outer is not None and not outer.span.name.startswith("ExecPlugin"):
        outer = outer.above
    attributes = outer.span.attributes if outer is not None else {}
    return {name: str(attributes[name]) for name in PROTOCOL_VARIABLES if name in attributes}
