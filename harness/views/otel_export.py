"""Export of a trace to an OpenTelemetry collector; only this module imports OpenTelemetry (the extra `otel`)."""

import os
from collections.abc import Iterable

from harness.views.otlp import process_name
from skel.spans import Span

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""The variable that names the collector, as for all programs with OpenTelemetry."""


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

    def kind(span: Span) -> SpanKind:
        if span.name == "PluginMain":
            return SpanKind.SERVER
        return SpanKind.CLIENT if span.name.startswith(("ExecPlugin", "ipam.Exec")) else SpanKind.INTERNAL

    made = [
        ReadableSpan(
            name=span.name,
            context=context(span, span.span_id),
            parent=context(span, span.parent_id) if span.parent_id else None,
            resource=Resource({"service.name": process_name(span, own_pid), "process.pid": span.pid}),
            attributes=span.attributes,
            kind=kind(span),
            start_time=span.start_ns,
            end_time=span.end_ns or span.start_ns,
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
