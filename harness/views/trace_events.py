"""A trace in the Trace Event format, which ui.perfetto.dev and chrome://tracing open."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from harness.views.otlp import process_name
from skel.spans import Span

_CALLS: Final = ("ExecPlugin", "ipam.Exec")


def trace_events(spans: Iterable[Span], *, own_pid: int) -> dict[str, Any]:
    """Return the JSON object: complete events (`ph` X) with times in microseconds, and names of processes and threads.

    An arrow goes from each execution of a plugin to its PluginMain. Events of one thread nest. A span that would
    overlap with another gets the next free thread of its process.
    """
    ordered = sorted(spans, key=lambda span: (span.start_ns, -_end(span)))
    by_id = {span.span_id: span for span in ordered}
    threads = _Threads()
    events: list[dict[str, Any]] = []
    places: dict[str, tuple[int, int]] = {}
    for span in ordered:
        tid = threads.of(span)
        places[span.span_id] = (span.pid, tid)
        events.append(
            {
                "name": span.name,
                "cat": "cni",
                "ph": "X",
                "ts": span.start_ns / 1000,
                "dur": (_end(span) - span.start_ns) / 1000,
                "pid": span.pid,
                "tid": tid,
                "args": {**span.attributes, **({"error": span.error} if span.error else {})},
            }
        )
    for span in ordered:
        parent = by_id.get(span.parent_id)
        if parent is not None and parent.pid != span.pid and parent.name.startswith(_CALLS):
            events += _arrow(parent, span, places)
    return {"displayTimeUnit": "ms", "traceEvents": [*_names(ordered, own_pid, threads), *events]}


class _Threads:
    """Gives each span a thread, so that the spans of one thread nest."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, int], list[int]] = {}
        self._preferred: dict[str, int] = {}
        self.tracks: dict[tuple[int, int], str] = {}

    def of(self, span: Span) -> int:
        """Return the thread of a span; spans come in the order of their beginnings, longer ones first."""
        tid = self._preferred.get(span.parent_id, span.thread + 1)
        while not self._fits(span, tid):
            tid += 1
        self._ends.setdefault((span.pid, tid), []).append(_end(span))
        self._preferred[span.span_id] = tid
        self.tracks.setdefault((span.pid, tid), span.track)
        return tid

    def _fits(self, span: Span, tid: int) -> bool:
        ends = self._ends.get((span.pid, tid), [])
        while ends and ends[-1] <= span.start_ns:
            ends.pop()
        return not ends or _end(span) <= ends[-1]


def _names(spans: Iterable[Span], own_pid: int, threads: _Threads) -> Iterator[dict[str, Any]]:
    named: dict[int, str] = {}
    for span in spans:
        plugin = span.attributes.get("plugin") if span.name == "PluginMain" else None
        name = str(plugin) if plugin else process_name(span, own_pid)
        if plugin or span.pid not in named:
            named.setdefault(span.pid, name)
    for order, (pid, name) in enumerate(named.items()):
        yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}
        yield {"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": order}}
    for (pid, tid), track in threads.tracks.items():
        if track:
            yield {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": track}}


def _arrow(call: Span, main: Span, places: dict[str, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    for phase, span, more in (("s", call, {}), ("f", main, {"bp": "e"})):
        pid, tid = places[span.span_id]
        # An arrow belongs to the event around its time.
        ts = min(max(main.start_ns, span.start_ns), _end(span)) / 1000
        identity = int(main.span_id, 16) & 0x7FFFFFFFFFFFF
        yield {"name": "exec", "cat": "cni", "ph": phase, "id": identity, "ts": ts, "pid": pid, "tid": tid, **more}


def _end(span: Span) -> int:
    return span.end_ns or span.start_ns
