"""The header traceparent of gRPC calls, as kubelet's OpenTelemetry sends it: the runtime's trace continues ours."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import grpc

from lean import recorder

Q = TypeVar("Q")
A = TypeVar("A")


class _Details(NamedTuple):
    """The parts of a call that interceptors may change (grpc.ClientCallDetails)."""

    method: str
    timeout: float | None
    metadata: Sequence[tuple[str, str | bytes]] | None
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class _TraceContext(grpc.UnaryUnaryClientInterceptor):
    """Adds the header to each call, if this thread's steps are recorded (W3C Trace Context)."""

    def intercept_unary_unary(
        self, continuation: Callable[[Any, Q], A], client_call_details: grpc.ClientCallDetails, request: Q
    ) -> A:
        """Make the call."""
        details = client_call_details
        if (taking := recorder()) is None:
            return continuation(details, request)
        metadata = [*(details.metadata or ()), ("traceparent", taking.traceparent())]
        changed = _Details(
            details.method, details.timeout, metadata, details.credentials, details.wait_for_ready, details.compression
        )
        return continuation(changed, request)


def with_trace_context(channel: grpc.Channel) -> grpc.Channel:
    """Return a channel whose calls name the innermost open span of their thread."""
    return grpc.intercept_channel(channel, _TraceContext())
