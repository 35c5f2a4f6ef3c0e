"""The timeline of a run: bars with times, sentences and attributes; repetitions of a step are one bar."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from harness.output import printable
from harness.views.call_tree import duration
from harness.views.run_steps import Step, repetitions, words_of
from harness.views.step_meanings import Meaning, meaning_of
from harness.views.trace_formats import EXECUTIONS
from harness.views.trace_steps import POLL, is_kernel

_HIDDEN: Final = frozenset({"stdin", "stdout", "stderr", "reports_steps", "is_noted"})
"""Attributes that documents have, or that are shown in another way."""
_LEAST: Final = 0.15
"""The width of the shortest bar, in percent."""


class Bar(NamedTuple):
    """A step in the timeline: `left` and `width` in percent of the run; `facts` are its attributes."""

    name: str
    words: str
    time: str
    left: float
    width: float
    kind: str
    """ "kernel", "call" or empty."""
    error: str
    facts: tuple[tuple[str, str], ...]
    documents: str
    """The anchor of its documents, empty for none."""
    is_open: bool
    inside: "tuple[Bar, ...]"
    meaning: Meaning | None = None
    is_first: bool = False
    """Whether it is the first step with its meaning."""
    times: int = 1
    """The number of steps that this one stands for; they are inside."""


def timeline(steps: Sequence[Step], anchors: Mapping[str, str]) -> tuple[Bar, ...]:
    """Return the bars of a run; `anchors` has the anchor of the documents of each execution, by its own."""
    return _Timeline(steps, anchors).bars


class _Timeline:
    """The bars of a run; repetitions of a step are one bar, with all of them inside."""

    def __init__(self, steps: Sequence[Step], anchors: Mapping[str, str]) -> None:
        self._anchors = anchors
        self._explained: set[Meaning] = set()
        self._seen = {meaning_of(step.span.name) for outer in steps for step in _visible(outer)}
        """The meanings of steps that are seen before a line is opened."""
        self._start = min((step.span.start_ns for step in steps), default=0)
        self._whole = max(max((step.end_ns for step in steps), default=0) - self._start, 1)
        self.bars = self._of(steps)

    def _of(self, steps: Sequence[Step], *, is_closed: bool = False) -> tuple[Bar, ...]:
        groups = repetitions(steps)
        return tuple(
            self._folded(each, is_closed) if len(each) > 1 else self._bar(each[0], is_closed) for each in groups
        )

    def _folded(self, group: Sequence[Step], is_closed: bool) -> Bar:  # noqa: FBT001 -- as for _bar
        first, *others = (self._bar(step, is_closed) for step in group)
        taken = sum(step.end_ns - step.span.start_ns for step in group)
        left, width = self._place(group[0].span.start_ns, group[-1].end_ns)
        return first._replace(
            time=duration(taken), left=left, width=width, facts=(), documents="", is_open=False, times=len(group),
            inside=(first._replace(is_first=False), *others),
        )  # fmt: skip

    def _place(self, start_ns: int, end_ns: int) -> tuple[float, float]:
        width = max(100 * (end_ns - start_ns) / self._whole, _LEAST)
        left = min(100 * (start_ns - self._start) / self._whole, 100 - width)
        return round(left, 3), round(width, 3)

    def _bar(self, step: Step, is_closed: bool) -> Bar:  # noqa: FBT001 -- the place of the step
        span = step.span
        is_call = span.name.startswith(EXECUTIONS)
        left, width = self._place(span.start_ns, step.end_ns)
        key, words = words_of(step)
        process = [] if step.above is None or step.above.span.pid == span.pid else [("process", str(span.pid))]
        meaning = meaning_of(span.name)
        is_first = meaning not in {None, *self._explained} and not (is_closed and meaning in self._seen)
        self._explained |= {meaning} if meaning is not None and is_first else set()
        return Bar(
            name=printable(span.name),
            words=words,
            time=duration(step.end_ns - span.start_ns),
            left=left,
            width=width,
            kind="kernel" if is_kernel(span) else "call" if is_call else "",
            error=printable(span.error),
            facts=(*_facts({name: value for name, value in span.attributes.items() if name != key}), *process),
            documents=self._anchors.get(f"call-{span.span_id}", ""),
            is_open=_is_open(step),
            inside=self._of(step.inside, is_closed=is_closed or not _is_open(step)),
            meaning=meaning,
            is_first=is_first,
        )


def _is_open(step: Step) -> bool:
    return step.span.name != POLL and not all(is_kernel(inner.span) for inner in step.inside)


def _visible(step: Step) -> Iterator[Step]:
    yield step
    if _is_open(step):
        for inner in step.inside:
            yield from _visible(inner)


def _facts(attributes: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in attributes.items():
        if key not in _HIDDEN and value not in ("", []):
            lines = value if isinstance(value, list) else str(value).split("\n")
            yield printable(key), "\n".join(printable(str(line)) for line in lines)
