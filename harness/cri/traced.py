"""A runtime's services, with a span for each call that changes something, under its name in CRI's definition."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from fast_stdlib import span, span_note

S = TypeVar("S")

_LONGEST: Final = 200
_CHANGING: Final = ("run_", "stop_", "remove_", "create_", "start_", "exec", "pull_")
"""Calls that only look come several times a second, and are left out."""


class _Traced:
    """Passes everything on to a service."""

    def __init__(self, service: object) -> None:
        self._service = service

    def __getattr__(self, name: str) -> object:
        found = getattr(self._service, name)
        return _in_span(name, found) if name.startswith(_CHANGING) else found


def traced_service(service: S) -> S:
    """Return a service that does as `service`; this thread's recorder, or that of another caller, gets each call."""
    return cast("S", _Traced(service))


def _in_span(method: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: object, **named: object) -> object:
        with span("".join(word.capitalize() for word in method.split("_")), waits=True):
            texts = [each for each in (*arguments, *named.values()) if isinstance(each, str) and each]
            if texts:
                span_note(request=[text[:_LONGEST] for text in texts])
            answer = function(*arguments, **named)
            if isinstance(answer, str):
                span_note(response=answer)
            return answer

    return call
