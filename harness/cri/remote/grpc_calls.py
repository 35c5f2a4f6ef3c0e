"""Calls of gRPC: their errors in the words that kubelet shows, and their header traceparent.

The words are those of String in Go's google.golang.org/grpc/internal/status. The header is the one that kubelet's
OpenTelemetry sends: the runtime's trace continues ours.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import grpc

from fast_stdlib import recorder
from harness.cri.service import NotFoundError, RuntimeServiceError

Q = TypeVar("Q")
A = TypeVar("A")


class RemoteError(RuntimeServiceError):
    """The runtime refused a call, or did not answer; `code` is gRPC's, as `Unknown`."""

    def __init__(self, code: grpc.StatusCode, description: str) -> None:
        """Take gRPC's code and the runtime's own words."""
        super().__init__(f"rpc error: code = {go_name(code)} desc = {description}")
        self.code = code


class RemoteNotFoundError(RemoteError, NotFoundError):
    """The runtime knows no sandbox or container of that ID."""


def go_name(code: grpc.StatusCode) -> str:
    """Return a code's name as Go prints it: `DeadlineExceeded`, and with one L `Canceled`."""
    return "Canceled" if code is grpc.StatusCode.CANCELLED else code.name.title().replace("_", "")


def call(method: Callable[..., A], request: object, timeout_s: float | None) -> A:
    """Return the answer to a request; None is no time limit. Raises RemoteError, or NotFoundError."""
    try:
        return method(request, timeout=timeout_s)
    except grpc.RpcError as error:
        # Each error of a call is a grpc.Call too; only its base class does not say so.
        code, details = error.code(), error.details()
        kind = RemoteNotFoundError if code is grpc.StatusCode.NOT_FOUND else RemoteError
        raise kind(code, details or "") from error


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
