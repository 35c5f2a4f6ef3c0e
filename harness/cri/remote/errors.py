"""Errors of gRPC calls, in the words that kubelet shows (String of Go's google.golang.org/grpc/internal/status)."""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from harness.cri.service import NotFoundError, RuntimeServiceError


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


@contextmanager
def translated() -> Iterator[None]:
    """Raise RemoteError, or NotFoundError, for an error of gRPC."""
    try:
        yield
    except grpc.RpcError as error:
        # Each error of a call is a grpc.Call too; only its base class does not say so.
        code, details = error.code(), error.details()
        kind = RemoteNotFoundError if code is grpc.StatusCode.NOT_FOUND else RemoteError
        raise kind(code, details or "") from error
