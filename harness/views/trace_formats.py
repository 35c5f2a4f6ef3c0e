"""A verb under `--trace`, `--trace-file` or OpenTelemetry: its trace is recorded, shown and written.

The formats are those of other programs:

- OpenTelemetry's JSON: the Protobuf JSON mapping of opentelemetry-proto, with IDs in hexadecimal.
- The Trace Event Format of Chromium, which ui.perfetto.dev reads.
- Export to an OpenTelemetry collector. Only this module imports OpenTelemetry (the extra `otel`).
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import fast_stdlib
from harness import output
from harness.files import write_atomically
from harness.locations import own_version
from harness.trace_recorder import TraceRecorder
from harness.views.call_tree import TreePrinter
from harness.views.trace_steps import StepsPrinter
from skel.spans import Span, parse_traceparent

_INTERNAL, _SERVER, _CLIENT = 1, 2, 3  # SpanKind of opentelemetry-proto
_ERROR: Final = 2  # STATUS_CODE_ERROR
_SAMPLED: Final = 1  # of the trace flags (W3C Trace Context)
TRACK: Final = "cni_harness.track"
"""The attribute that names the pod that a thread worked on, if several were worked on at the same time."""

EXECUTIONS: Final = ("ExecPlugin", "ipam.Exec")
"""How the names of spans begin that are executions of a plugin."""

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""The variable that names the collector, as for all programs with OpenTelemetry."""


def otlp_document(spans: Iterable[Span], *, own_pid: int, version: str) -> dict[str, Any]:
    """Return the object ExportTraceServiceRequest; each process is a resource."""
    processes: dict[int, list[Span]] = {}
    for span in spans:
        processes.setdefault(span.pid, []).append(span)
    return {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": [
                        _attribute("service.name", _process_name(found[0], own_pid)),
                        _attribute("process.pid", pid),
                    ]
                },
                "scopeSpans": [
                    {"scope": {"name": "cni-harness", "version": version}, "spans": [_span(span) for span in found]}
                ],
            }
            for pid, found in processes.items()
        ]
    }


def _span(span: Span) -> dict[str, Any]:
    made: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _kind(span.name),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(_end(span)),
        "attributes": [_attribute(key, value) for key, value in span.attributes.items()],
        "flags": _SAMPLED,
    }
    if span.track:
        made["attributes"].append(_attribute(TRACK, span.track))
    if span.parent_id:
        made["parentSpanId"] = span.parent_id
    if not span.end_ns:
        made["status"] = {"code": _ERROR, "message": span.error or "did not end"}
    elif span.error:
        made["status"] = {"code": _ERROR, "message": span.error}
    return made


def _kind(name: str) -> int:
    if name == "PluginMain":
        return _SERVER
    return _CLIENT if name.startswith(EXECUTIONS) else _INTERNAL


def _attribute(key: str, value: object) -> dict[str, Any]:
    return {"key": key, "value": _value(value)}


def _value(value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": str(value).encode(errors="replace").decode()}


def trace_events(spans: Iterable[Span], *, own_pid: int) -> dict[str, Any]:
    """Return the JSON object: complete events (`ph` X) with times in microseconds, and names of processes and threads.

    An arrow goes from each execution of a plugin to its PluginMain. Events of one thread nest. A span that would
    overlap with another gets the next free thread of its process.
    """
    ordered = sorted(spans, key=lambda span: (span.start_ns, -_end(span)))
    by_id = {span.span_id: span for span in ordered}
    threads = _Threads()
    events: list[dict[str, Any]] = []
    places: dict[str, tuple[int, int]] = {}
    for span in ordered:
        tid = threads.of(span)
        places[span.span_id] = (span.pid, tid)
        events.append(
            {
                "name": span.name,
                "cat": "cni",
                "ph": "X",
                "ts": span.start_ns / 1000,
                "dur": (_end(span) - span.start_ns) / 1000,
                "pid": span.pid,
                "tid": tid,
                "args": {**span.attributes, **({"error": span.error} if span.error else {})},
            }
        )
    for span in ordered:
        parent = by_id.get(span.parent_id)
        if parent is not None and parent.pid != span.pid and parent.name.startswith(EXECUTIONS):
            events += _arrow(parent, span, places)
    return {"displayTimeUnit": "ms", "traceEvents": [*_names(ordered, own_pid, threads), *events]}


class _Threads:
    """Gives each span a thread, so that the spans of one thread nest."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, int], list[int]] = {}
        self._preferred: dict[str, int] = {}
        self.tracks: dict[tuple[int, int], str] = {}

    def of(self, span: Span) -> int:
        """Return the thread of a span; spans come in the order of their beginnings, longer ones first."""
        tid = self._preferred.get(span.parent_id, span.thread + 1)
        while not self._fits(span, tid):
            tid += 1
        self._ends.setdefault((span.pid, tid), []).append(_end(span))
        self._preferred[span.span_id] = tid
        self.tracks.setdefault((span.pid, tid), span.track)
        return tid

    def _fits(self, span: Span, tid: int) -> bool:
        ends = self._ends.get((span.pid, tid), [])
        while ends and ends[-1] <= span.start_ns:
            ends.pop()
        return not ends or _end(span) <= ends[-1]


def _names(spans: Iterable[Span], own_pid: int, threads: _Threads) -> Iterator[dict[str, Any]]:
    named: dict[int, str] = {}
    for span in spans:
        plugin = span.attributes.get("plugin") if span.name == "PluginMain" else None
        name = str(plugin) if plugin else _process_name(span, own_pid)
        if plugin or span.pid not in named:
            named.setdefault(span.pid, name)
    for order, (pid, name) in enumerate(named.items()):
        yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}
        yield {"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": order}}
    for (pid, tid), track in threads.tracks.items():
        if track:
            yield {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": track}}


def _arrow(call: Span, main: Span, places: dict[str, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    for phase, span, more in (("s", call, {}), ("f", main, {"bp": "e"})):
        pid, tid = places[span.span_id]
        # An arrow belongs to the event around its time.
        ts = min(max(main.start_ns, span.start_ns), _end(span)) / 1000
        identity = int(main.span_id, 16) & 0x7FFFFFFFFFFFF  # numbers of JavaScript have 53 bits
        yield {"name": "exec", "cat": "cni", "ph": phase, "id": identity, "ts": ts, "pid": pid, "tid": tid, **more}


class ExportError(Exception):
    """The trace could not be exported."""


def export(spans: Iterable[Span], *, own_pid: int) -> None:
    """Send the spans to the collector that the variables OTEL_EXPORTER_OTLP_* name, by Protobuf over HTTP.

    Raises ExportError: the extra is missing, or the collector does not take them.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
    except ImportError as error:
        raise ExportError(f"no trace was exported: {error.name} is missing: pip install 'cni-harness[otel]'") from None

    def context(span: Span, span_id: str) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(int(span.trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)

    made = [
        ReadableSpan(
            name=span.name,
            context=context(span, span.span_id),
            parent=context(span, span.parent_id) if span.parent_id else None,
            resource=Resource({"service.name": _process_name(span, own_pid), "process.pid": span.pid}),
            attributes=span.attributes,
            kind=SpanKind(_kind(span.name) - 1),  # the protocol counts from 1, the SDK from 0
            start_time=span.start_ns,
            end_time=_end(span),
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        )
        for span in spans
    ]
    # The exporter repeats a refused request with growing pauses; a verb must not wait for that.
    exporter = OTLPSpanExporter(timeout=float(os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT", "5")))
    try:
        if exporter.export(made) is not SpanExportResult.SUCCESS:
            raise ExportError(f"no trace was exported: {os.environ[ENDPOINT]} did not take it")
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]


def _process_name(span: Span, own_pid: int) -> str:
    return "cni-harness" if span.pid == own_pid else "cni-plugin"


def _end(span: Span) -> int:
    return span.end_ns or span.start_ns


@contextmanager
def traced(
    verb: str,
    *,
    tree: Literal["steps", "whole"] | None,
    files: Sequence[Path],
    say: Callable[[str], None],
    take: Callable[[Sequence[Span]], None] | None = None,
) -> Iterator[None]:
    """Record the block, which carries out `verb`: print its tree, of steps or whole, and write `files` at its end.

    `take` gets the spans before that. The trace continues the one that TRACEPARENT in the environment names.
    """
    printer = _printer(whole=tree == "whole") if tree else None
    parent = parse_traceparent(os.environ.get("TRACEPARENT", ""))
    exports = bool(os.environ.get(ENDPOINT))
    recorder = TraceRecorder(parent, printer or (lambda _: None), keep=bool(files) or exports or take is not None)
    try:
        with fast_stdlib.recorded_by(recorder), fast_stdlib.span(f"cni-harness {verb}", waits=True):
            yield
    finally:
        if printer is not None:
            printer.finish()
        if take is not None:
            take(recorder.spans)
        _write(recorder, files, say)
        if exports:
            try:
                export(recorder.spans, own_pid=os.getpid())
            except ExportError as error:
                say(f"Warning: {error}")


def _printer(*, whole: bool) -> TreePrinter | StepsPrinter:
    tree = TreePrinter(partial(output.say, styled=True), colour=output.is_coloured(sys.stderr), whole=whole)
    return tree if whole else StepsPrinter(tree)


def _write(recorder: TraceRecorder, files: Sequence[Path], say: Callable[[str], None]) -> None:
    if recorder.dropped:
        say(f"Warning: the trace lacks its last {recorder.dropped} spans")
    for file in files:
        try:
            if file.name.endswith(".perfetto.json"):
                text = json.dumps(trace_events(recorder.spans, own_pid=os.getpid()))
            else:
                text = json.dumps(otlp_document(recorder.spans, own_pid=os.getpid(), version=own_version())) + "\n"
            # A device or a pipe must not be replaced by a file.
            if file.suffix == ".jsonl" or (file.exists() and not file.is_file()):
                with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as opened:
                    opened.write(text.encode())
            else:
                write_atomically(file, text.encode(), mode=0o600)
        except OSError as error:
            say(f"Warning: no trace is written to {file}: {error.strerror}")
