"""Parts of the standard library with a faster start-up: a plugin's process lasts only milliseconds.

`fast_stdlib.typing` replaces `typing`, and so on: same names, same meaning. Modules that a plugin's process imports use
these; all others use the standard library.

`span` stands in for OpenTelemetry's tracer: `with span("netlink"): …` names a step for whoever records this thread's
steps. Without a recorder it does nothing, and makes no system call. The hook is in this file because each plugin has
loaded it already; a module of its own would cost six system calls.
"""

from _thread import _local

TYPE_CHECKING = False

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Protocol

    Value = str | int | float | bool | list[str]
    """The value of a span's attribute."""

    class Recorder(Protocol):
        """Takes the steps of one thread."""

        def begin(self, name: str, attributes: dict[str, Value], *, waits: bool) -> AbstractContextManager[object]:
            """Begin a step inside the innermost open one. It keeps `attributes`.

            At the end of its `with` block the step ends, and all that are still open inside.
            """

        def note(self, key: str, value: Value) -> None:
            """Set an attribute of the innermost open step; the key "error" says that it failed."""

        def traceparent(self) -> str:
            """Return the header traceparent for a program that the innermost open step starts."""

        def branch(self, track: str) -> "Recorder":
            """Return a recorder for another thread, whose steps are inside the innermost open one."""


__all__ = ["recorded_by", "recorder", "span", "span_note"]

_of_thread = _local()


def recorder() -> "Recorder | None":
    """Return the recorder of this thread's steps; without one, attributes that cost time need not be made."""
    return getattr(_of_thread, "recorder", None)


class recorded_by:  # noqa: N801 -- it is used like contextlib's functions, and a class starts faster
    """Let a recorder, or none, take the steps of this thread until the end of the `with` block."""

    __slots__ = ("_before", "_recorder")

    def __init__(self, recorder: "Recorder | None") -> None:
        self._recorder = recorder

    def __enter__(self) -> None:
        self._before = recorder()
        _of_thread.recorder = self._recorder

    def __exit__(self, *_: object) -> None:
        _of_thread.recorder = self._before


class _Nothing:
    """A step that nobody records."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


_NOTHING = _Nothing()


def span(name: str, *, waits: bool = False, **attributes: "Value") -> "AbstractContextManager[object]":
    """Begin a step of this thread, which ends with the `with` block. `waits`: it may last, and is shown at once."""
    taking = getattr(_of_thread, "recorder", None)
    return _NOTHING if taking is None else taking.begin(name, attributes, waits=waits)


def span_note(**attributes: "Value") -> None:
    """Set attributes of the innermost open step, such as its outcome; `error` says that it failed."""
    taking = getattr(_of_thread, "recorder", None)
    if taking is not None:
        for key, value in attributes.items():
            taking.note(key, value)
