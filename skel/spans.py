"""Steps of a program as spans: names, times and parents, as in OpenTelemetry, with the IDs of W3C Trace Context."""

import os
from time import time_ns

from fast_stdlib import json
from fast_stdlib.typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from types import TracebackType

    from fast_stdlib import Value

_LENGTHS = (2, 32, 16, 2)
_DIGITS = "0123456789abcdef"
_json = json.encoder(default=str)


class Parent(NamedTuple):
    """The span of another program that the spans of this one are inside of."""

    trace_id: str
    span_id: str
    is_sampled: bool


def parse_traceparent(text: str) -> Parent | None:
    """Read the header traceparent of W3C Trace Context; None if it is invalid.

    A version that is not known yet is read by its first four parts, as the recommendation says.
    """
    version, *rest = text.split("-")
    if version == "ff" or len(rest) < len(_LENGTHS) - 1 or (version == "00" and len(rest) > len(_LENGTHS) - 1):
        return None
    parts = (version, *rest[: len(_LENGTHS) - 1])
    if any(len(part) != length or part.strip(_DIGITS) for part, length in zip(parts, _LENGTHS, strict=True)):
        return None
    _, trace_id, span_id, flags = parts
    if not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return Parent(trace_id, span_id, bool(int(flags, 16) & 1))


class Span:
    """One step. Times are in nanoseconds since 1970; `end_ns` is 0 while it lasts. `error` is empty if it succeeded.

    `thread` and `track` tell apart threads of the harness, and are no part of a report.
    """

    __slots__ = (
        "attributes", "end_ns", "error", "is_noted", "name", "parent_id", "pid", "span_id", "start_ns", "thread",
        "trace_id", "track",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        trace_id: str,
        span_id: str,
        parent_id: str,
        start_ns: int,
        pid: int,
        attributes: "dict[str, Value]",
    ) -> None:
        self.name = name
        self.trace_id = trace_id
        self.span_id = span_id
        self.parent_id = parent_id
        self.start_ns = start_ns
        self.end_ns = 0
        self.pid = pid
        self.attributes = attributes
        self.error = ""
        self.thread = 0
        self.track = ""
        self.is_noted = False
        """Whether it waits to be written (skel.trace)."""


class _OpenSpan(Span):
    """A span that ends with a `with` block."""

    __slots__ = ("stack",)

    stack: "SpanStack"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: "type[BaseException] | None", error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.stack.end(self, error)


class SpanStack:
    """Makes spans of the steps of one thread (fast_stdlib.Recorder), and gives each to `began` and `ended`."""

    def __init__(self, parent: Parent | None) -> None:
        """Continue the trace of `parent`, or begin one."""
        digits = os.urandom(21).hex()
        self.trace_id = parent.trace_id if parent else digits[:32]
        self._outer = parent.span_id if parent else ""
        self._prefix = digits[32:]
        self._count = 0
        self._pid = os.getpid()
        self._open: list[_OpenSpan] = []

    def began(self, span: Span, *, waits: bool) -> None:
        """Take a span that begins; `waits` if it may last."""

    def ended(self, span: Span) -> None:
        """Take a span that has ended."""

    def begin(self, name: str, attributes: "dict[str, Value]", *, waits: bool) -> _OpenSpan:
        """Begin a span inside the innermost open one. It keeps `attributes`."""
        self._count += 1
        span_id = f"{self._prefix}{self._count:06x}"
        opened = self._open
        parent_id = opened[-1].span_id if opened else self._outer
        span = _OpenSpan(name, self.trace_id, span_id, parent_id, time_ns(), self._pid, attributes)
        span.stack = self
        opened.append(span)
        self.began(span, waits=waits)
        return span

    def end(self, ending: Span, error: BaseException | None) -> None:
        """End a span, and all that are still open inside; one that has ended already stays as it is."""
        while ending in self._open:
            span = self._open.pop()
            span.end_ns = time_ns()
            if error is not None:
                span.error = _in_words(error)
            self.ended(span)

    def note(self, key: str, value: "Value") -> None:
        """Set an attribute of the innermost open span, or its error."""
        if not self._open:
            return
        if key == "error":
            self._open[-1].error = str(value)
        else:
            self._open[-1].attributes[key] = value

    def current_id(self) -> str:
        """Return the ID of the innermost open span, or of the parent; empty for neither."""
        return self._open[-1].span_id if self._open else self._outer

    def traceparent(self) -> str:
        """Return the header traceparent for a program that the innermost open span starts."""
        return f"00-{self.trace_id}-{self.current_id() or '0' * 15 + '1'}-01"

    def branch(self, track: str) -> "SpanStack":  # noqa: ARG002 -- the harness's recorder tells tracks apart
        """Return a recorder for another thread."""
        return SpanStack(Parent(self.trace_id, self.current_id(), is_sampled=True))


def encoded(span: Span) -> str:
    """Return a span as a line of a report: a JSON object (docs/tracing.md)."""
    # IDs are hexadecimal. An encoder takes three times as long for the whole as for the parts that need it.
    error = f', "error": {_json(span.error)}' if span.error else ""
    return (
        f'{{"span": {_json(span.name)}, "trace": "{span.trace_id}", "id": "{span.span_id}", '
        f'"parent": "{span.parent_id}", "start": {span.start_ns}, "end": {span.end_ns}, "pid": {span.pid}, '
        f'"attributes": {_json(span.attributes)}{error}}}'
    )


def decoded(line: Any) -> Span:  # noqa: ANN401 -- JSON of any shape
    """Read a line of a report, any JSON. Raises ValueError, KeyError, TypeError, AttributeError."""
    span = Span(
        str(line["span"]), str(line["trace"]), str(line["id"]), str(line.get("parent", "")), int(line["start"]),
        int(line.get("pid", 0)), {},
    )  # fmt: skip
    if parse_traceparent(f"00-{span.trace_id}-{span.span_id}-01") is None:
        raise ValueError(span.span_id)
    span.end_ns = int(line.get("end", 0))
    if not 0 < span.start_ns < 1 << 63 or (span.end_ns and not span.start_ns <= span.end_ns < 1 << 63):
        raise ValueError(span.start_ns)
    for key, value in line.get("attributes", {}).items():
        span.attributes[str(key)] = _value(value)
    span.error = str(line.get("error", ""))
    return span


def _value(value: object) -> "Value":
    if isinstance(value, (str, int, float)):
        return value
    return [str(each) for each in value] if isinstance(value, list) else json.dumps(value, default=str)


def _in_words(error: BaseException) -> str:
    if isinstance(error, SystemExit):  # a signal has ended a verb of the harness
        return f"exit code {error.code}"
    return str(error) or type(error).__name__
