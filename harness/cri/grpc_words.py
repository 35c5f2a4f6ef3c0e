"""Errors of the built-in runtime in the words of gRPC's client, which kubelet shows."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

from harness.cri.service import ImageNotFoundError, NotFoundError, RuntimeServiceError

S = TypeVar("S")

_BEGINNING: Final = "rpc error: "


class _InGrpcWords:
    """Passes everything on to a service; the errors of its calls get a code."""

    def __init__(self, service: object) -> None:
        self._service = service

    def __getattr__(self, name: str) -> object:
        found = getattr(self._service, name)
        return _worded(found) if callable(found) else found


def in_grpc_words(service: S) -> S:
    """Return a service that does as `service`; the texts of its errors begin with `rpc error: code = ...`."""
    return cast("S", _InGrpcWords(service))


def _worded(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: object, **named: object) -> object:
        try:
            return function(*arguments, **named)
        except RuntimeServiceError as error:
            if str(error).startswith(_BEGINNING):
                raise
            for kind in (NotFoundError, ImageNotFoundError):
                if isinstance(error, kind):
                    raise kind(f"{_BEGINNING}code = NotFound desc = {error}") from error
            raise RuntimeServiceError(f"{_BEGINNING}code = Unknown desc = {error}") from error

    return call
