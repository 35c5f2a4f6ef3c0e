"""The steps of a trace for reading: without messages to the kernel, and without polls that come again and again."""

from dataclasses import dataclass
from typing import Final

from harness.trace_recorder import SpanEvent
from harness.views.call_tree import TreePrinter
from skel.spans import Span

_KERNEL: Final = ("netlink ", "nftables ", "iptables", "ip6tables", "DBus")
POLL: Final = "GetStatusNetworkList"
"""The step that a kubelet repeats: it asks a network's plugins for their STATUS."""
_SYNC: Final = "syncPod"
_STATE: Final = "generateAPIPodStatus"
_IDLE: Final = frozenset(
    {POLL, _STATE, "WaitForAttachAndMount", "SyncPod", "computePodActions", "killPodWithSyncResult"}
)
"""The steps of a `syncPod` that has nothing to do."""
_SHORT: Final = frozenset(
    {"make links", "configure pod", "after IPAM", "masquerade", "announce", "undo", "reserve", "release"}
)
"""Steps of plugins that are printed when they have ended; a line for their beginning would be one too many."""


def is_kernel(span: Span) -> bool:
    """Tell whether a span is a system call with messages, or a program that changes the kernel's rules."""
    return "messages" in span.attributes or span.name.startswith(_KERNEL)


@dataclass
class _Repeated:
    """A step that comes again: its first span, the number of those that were left out, and their time."""

    first: Span
    count: int = 0
    nanoseconds: int = 0


class StepsPrinter:
    """Prints the events of a trace by `tree`, without those that a reader can do without.

    - Messages to the kernel are counted, and the line of the step around them has the number.
    - Under a kubelet, a poll of `STATUS` is shown without its inner steps, and the first one for a network alone. So is
      a `syncPod` that does nothing and finds the same phase. Those that failed are all shown. A line at the end of
      `syncLoop` has their number and time.
    """

    def __init__(self, tree: TreePrinter) -> None:
        self._tree = tree
        self._polls: dict[str, Span] = {}
        """The open polls by the IDs of their own spans, and of those inside of them."""
        self._repeated: dict[tuple[str, str], _Repeated] = {}
        self._repeated_of: dict[str, _Repeated] = {}
        """The same by the IDs of open spans: a plugin may change the attributes of a span until its end."""
        self._held: dict[str, list[SpanEvent]] = {}
        """The events of each `syncPod` that has done nothing so far, by the IDs of its open spans."""
        self._phases: dict[str, object] = {}
        self._loop = ""

    def __call__(self, event: SpanEvent) -> None:
        """Print the lines that an event adds to the tree."""
        if event.begins:
            self._begin(event)
        elif event.span.span_id in self._polls:
            self._end_of_poll(event)
        elif event.span.span_id in self._held:
            self._end_of_held(event)
        elif not is_kernel(event.span):
            self._is_new_phase(event.span)
            if event.span.span_id == self._loop:
                self._tell_repeated()
            self._tree(event)

    def finish(self) -> None:
        """Close all spans that are still open."""
        for events in list(self._held.values()):
            self._release(events)
        self._tree.finish()

    def _begin(self, event: SpanEvent) -> None:
        span = event.span
        if span.name == "syncLoop":
            self._loop = span.span_id
        if poll := self._polls.get(span.parent_id):
            self._polls[span.span_id] = poll
        elif is_kernel(span):
            self._tree.messages[span.parent_id] += 1
        elif self._loop and span.name == POLL:
            self._polls[span.span_id] = span
            if not self._is_repeated(span):
                self._pass_on(event._replace(waits=True))
        elif self._loop and span.name == _SYNC and self._is_repeated(span):
            self._held[span.span_id] = [event]
        else:
            is_short = span.name in _SHORT or span.name.startswith("cmd")
            self._pass_on(event._replace(waits=event.waits and not is_short))

    def _end_of_poll(self, event: SpanEvent) -> None:
        span = event.span
        if self._polls[span.span_id] is not span:
            return
        self._polls = {span_id: poll for span_id, poll in self._polls.items() if poll is not span}
        if self._repeated_of[span.span_id].first is span:
            self._held.pop(span.span_id, None)
            self._pass_on(event)
        elif span.error:
            self._pass_on(SpanEvent(span, begins=True))
            self._pass_on(event)
        else:
            self._count(span)

    def _end_of_held(self, event: SpanEvent) -> None:
        span = event.span
        events = self._held.pop(span.span_id)
        events.append(event)
        if span.error or self._is_new_phase(span):
            self._release(events)
        elif span.name == _SYNC:
            self._count(span)
            for held in events:
                self._tree.messages.pop(held.span.span_id, None)

    def _pass_on(self, event: SpanEvent) -> None:
        """Print an event, or hold it with those of the `syncPod` around it, as long as that does nothing."""
        span = event.span
        events = self._held.get(span.parent_id)
        if events is not None and span.name in _IDLE and not span.error:
            events.append(event)
            if event.begins:
                self._held[span.span_id] = events
            return
        if events is not None:
            self._release(events)
        self._tree(event)

    def _release(self, events: list[SpanEvent]) -> None:
        """Print the events of a `syncPod`; the rest of it follows as it happens."""
        self._held = {span_id: others for span_id, others in self._held.items() if others is not events}
        for event in events:
            self._tree(event)
        events.clear()

    def _is_repeated(self, span: Span) -> bool:
        """Tell whether there was a span of the same name and subject; if not, this is the first."""
        key = _subject(span)
        is_repeated = key in self._repeated
        self._repeated_of[span.span_id] = self._repeated.setdefault(key, _Repeated(span))
        return is_repeated

    def _is_new_phase(self, span: Span) -> bool:
        if span.name != _STATE or self._phases.get(span.track) == span.attributes.get("phase"):
            return False
        self._phases[span.track] = span.attributes.get("phase")
        return True

    def _count(self, span: Span) -> None:
        repeated = self._repeated_of[span.span_id]
        repeated.count += 1
        repeated.nanoseconds += span.end_ns - span.start_ns

    def _tell_repeated(self) -> None:
        for each in self._repeated.values():
            if not each.count:
                continue
            first = each.first
            told = Span(
                first.name, first.trace_id, f"{first.span_id}+", self._loop, first.start_ns, first.pid, first.attributes
            )
            told.end_ns = told.start_ns + each.nanoseconds
            self._tree.notes[told.span_id] = f"{each.count} more, in all"
            self._tree(SpanEvent(told, begins=True))
            self._tree(SpanEvent(told, begins=False))


def _subject(span: Span) -> tuple[str, str]:
    return span.name, str(span.attributes.get("pod") or span.attributes.get("network") or "")
