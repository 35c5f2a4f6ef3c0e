"""A trace: the spans of all threads of the harness, and the spans that plugins report."""

from collections.abc import Callable
from threading import Lock
from typing import Final, NamedTuple

from skel.spans import Parent, Span, SpanStack

_MOST: Final = 200_000
"""Spans that are kept, some 100 MB; a kubelet runs for long."""


class SpanEvent(NamedTuple):
    """A span has begun or ended. A plugin may report one after its end. `waits` says that it may last."""

    span: Span
    begins: bool
    waits: bool = False


class _Shared:
    """What the recorders of all threads of one trace share."""

    def __init__(self, observe: Callable[[SpanEvent], None], *, keep: bool) -> None:
        self.lock = Lock()
        self.observe = observe
        self.keep = keep
        self.spans: list[Span] = []
        self.dropped = 0
        self.threads = 0


class TraceRecorder(SpanStack):
    """Records the spans of one thread; those of other threads are recorded by its branches (fast_stdlib.Recorder).

    `observe` gets each event, one at a time, and raises nothing. With `keep`, `spans` has all spans, in the order in
    which they were told, and `dropped` counts those beyond 200,000.
    """

    def __init__(self, parent: Parent | None, observe: Callable[[SpanEvent], None], *, keep: bool) -> None:
        super().__init__(parent)
        self._shared = _Shared(observe, keep=keep)
        self.track = ""
        self.thread = 0

    @property
    def spans(self) -> list[Span]:
        """All spans so far."""
        with self._shared.lock:
            return list(self._shared.spans)

    @property
    def dropped(self) -> int:
        """The number of spans that were not kept."""
        return self._shared.dropped

    def branch(self, track: str) -> "TraceRecorder":
        """Return a recorder for another thread, whose spans are inside the innermost open one.

        `track` names the subject of the thread, such as a pod; empty for this recorder's.
        """
        branch = TraceRecorder.__new__(TraceRecorder)
        SpanStack.__init__(branch, Parent(self.trace_id, self.current_id(), is_sampled=True))
        branch._shared = self._shared  # noqa: SLF001 -- of the same class
        branch.track = track or self.track
        with self._shared.lock:
            self._shared.threads += 1
            branch.thread = self._shared.threads
        return branch

    def began(self, span: Span, *, waits: bool) -> None:
        """Tell of a span that begins."""
        span.thread, span.track = self.thread, self.track
        self._tell(SpanEvent(span, begins=True, waits=waits))

    def ended(self, span: Span) -> None:
        """Tell of a span that has ended."""
        self._tell(SpanEvent(span, begins=False))

    def adopt(self, span: Span, known: Span | None) -> None:
        """Take a span that another process has reported; `known` is its earlier report, without an end."""
        if known is None:
            self.began(span, waits=not span.end_ns)
            return
        known.end_ns, known.error = span.end_ns, span.error
        known.attributes.update(span.attributes)
        if span.end_ns:
            self.ended(known)

    def _tell(self, event: SpanEvent) -> None:
        shared = self._shared
        with shared.lock:
            if event.begins and shared.keep:
                if len(shared.spans) < _MOST:
                    shared.spans.append(event.span)
                else:
                    shared.dropped += 1
            shared.observe(event)
