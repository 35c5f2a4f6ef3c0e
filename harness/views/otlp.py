"""A trace in OpenTelemetry's JSON (the Protobuf JSON mapping of opentelemetry-proto, with IDs in hexadecimal)."""

from collections.abc import Iterable
from typing import Any, Final

from skel.spans import Span

_INTERNAL, _SERVER, _CLIENT = 1, 2, 3
_ERROR: Final = 2
_SAMPLED: Final = 1
TRACK: Final = "cni_harness.track"
"""The attribute that names the pod that a thread worked on, if several were worked on at the same time."""


def process_name(span: Span, own: int) -> str:
    """Return the name of a span's process: this program's if `own` is its ID, else the plugin's."""
    return "cni-harness" if span.pid == own else "cni-plugin"


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
                        _attribute("service.name", process_name(found[0], own_pid)),
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
        "endTimeUnixNano": str(span.end_ns or span.start_ns),
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
    return _CLIENT if name.startswith(("ExecPlugin", "ipam.Exec")) else _INTERNAL


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
