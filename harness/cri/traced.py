"""Services of a runtime behind wrappers, such as one that makes a span of each call that changes something."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, cast

from fast_stdlib import span, span_note

S = TypeVar("S")
Wrapper: TypeAlias = Callable[[str, Callable[..., Any]], Callable[..., Any]]

_LONGEST: Final = 200
_CHANGING: Final = ("run_", "stop_", "remove_", "create_", "start_", "exec", "pull_")
"""Calls that only look come several times a second, and are left out."""


class _Wrapped:
    """Passes everything on to a service, methods within what `wrap` makes of their names and them."""

    def __init__(self, service: object, wrap: Wrapper) -> None:
        self._service, self._wrap = service, wrap

    def __getattr__(self, name: str) -> object:
        found = getattr(self._service, name)
        return self._wrap(name, found) if callable(found) else found


def wrapped_service(service: S, wrap: Wrapper) -> S:
    """Return a service that does as `service`, by the methods that `wrap` returns for its own."""
    return cast("S", _Wrapped(service, wrap))


def traced_service(service: S) -> S:
    """Return a service that does as `service`; this thread's recorder, or that of another caller, gets each call."""
    return wrapped_service(service, _in_span)


def _in_span(method: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a call into a span under its name in CRI's definition."""
    if not method.startswith(_CHANGING):
        return function

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
