"""A recorded run as a sequence diagram: who calls whom, in the order of time, down to the kernel; and its SVG 1.1."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias
from xml.sax.saxutils import escape, quoteattr

from harness.output import printable
from harness.views.call_tree import duration
from harness.views.run_steps import Step
from harness.views.trace_steps import POLL, is_kernel

KUBELET, RUNTIME, KERNEL = "kubelet", "runtime", "kernel"
_CRI_CALLS: Final = frozenset(
    f"{verb}{thing}"
    for verb in ("Run", "Stop", "Remove", "Create", "Start", "Exec", "Pull")
    for thing in ("PodSandbox", "Container", "Image", "Sync", "")
)
"""Names of spans (harness.cri.traced): calls of the kubelet's to the runtime."""
_NETWORK: Final = frozenset({"setupNetNS", "setupPodNetwork", "teardownPodNetwork", "GetStatusNetworkList"})
_NOTED: Final = frozenset(
    {"setupNetNS", "cacheAdd", "cacheDel", "reserve", "release", "undo", "ask the DHCP daemon", "wait for lock"}
)
"""Steps without a call to another that are shown beside their lane."""

# Pixels.
_LANE, _ROW, _TOP, _MARGIN, _CHARACTER = 210, 30, 64, 110, 7.0
_BOX: Final = (170, 30)
_HEAD: Final = 7
"""The length of the head of an arrow."""
_MOST: Final = 400
"""Rows that are drawn."""


_Polls: TypeAlias = dict[str, list[Step]]
"""Polls of STATUS by their networks."""


class Arrow(NamedTuple):
    """A call, its answer, or a step of one lane alone; `source` and `target` are lanes. `title` has the whole text."""

    kind: Literal["call", "answer", "note"]
    source: str
    target: str
    text: str
    title: str
    is_error: bool


def arrows(steps: Sequence[Step]) -> list[Arrow]:
    """Return the arrows of a run in the order of time; messages to the kernel that follow each other are one arrow.

    Of a network's polls the first one is drawn, and those that failed.
    """
    names = {step.span.name for outer in steps for step in outer.all()}
    start = KUBELET if names & {"syncLoop", "syncPod", "SyncPod"} else RUNTIME
    polls: _Polls = {}
    for poll in (step for outer in steps for step in outer.all() if step.span.name == POLL):
        polls.setdefault(_network(poll), []).append(poll)
    return [arrow for step in steps for arrow in _inside(step, start, polls)]


def _taken(step: Step) -> int:
    return step.end_ns - step.span.start_ns


def _network(step: Step) -> str:
    return str(step.span.attributes.get("network", ""))


def _inside(step: Step, lane: str, polls: _Polls) -> Iterator[Arrow]:
    """Yield the arrows of the steps inside of a step that is carried out in `lane`.

    `polls` has the polls of each network of which none is drawn yet.
    """
    messages: list[Step] = []
    for inner in step.inside:
        if is_kernel(inner.span):
            messages.append(inner)
            continue
        yield from _to_kernel(step, messages, lane)
        messages = []
        yield from _of(inner, lane, polls)
    yield from _to_kernel(step, messages, lane)


def _of(step: Step, lane: str, polls: _Polls) -> Iterator[Arrow]:
    span = step.span
    same = polls.pop(_network(step), []) if span.name == POLL else [step]
    if not same and not span.error:
        return
    target, text = _target(step, lane)
    if target == lane:
        if span.name in _NOTED:
            error = f": {span.error}" if span.error else ""
            addresses = span.attributes.get("addresses")
            words = ", ".join(map(str, addresses)) if isinstance(addresses, list) else ""
            yield _arrow("note", lane, lane, f"{span.name} {words}".rstrip(), error, is_error=bool(error))
        yield from _inside(step, lane, polls)
        return
    yield _arrow("call", lane, target, text, "", is_error=False)
    yield from _inside(step, target, polls)
    code = span.attributes.get("exit_code")
    answer = ("" if code is None else f"exit {code}, ") + duration(sum(_taken(each) for each in same or [step]))
    answer += f" in {len(same)} polls" if len(same) > 1 else ""
    yield _arrow("answer", target, lane, answer, f": {span.error}" if span.error else "", is_error=bool(span.error))


def _target(step: Step, lane: str) -> tuple[str, str]:
    """Return the lane that carries out a step, and the text of the call."""
    span = step.span
    if span.name.startswith("ExecPlugin"):
        return _plugin(step), str(span.attributes.get("CNI_COMMAND", "")) or "execute"
    if span.name.startswith("ipam.Exec"):
        return _plugin(step), span.name
    if lane == KUBELET and (span.name in _CRI_CALLS or span.name in _NETWORK):
        return RUNTIME, span.name
    return lane, ""


def _plugin(step: Step) -> str:
    return printable(Path(str(step.span.attributes.get("path", ""))).name) or "plugin"


def _to_kernel(step: Step, messages: Sequence[Step], lane: str) -> Iterator[Arrow]:
    if not messages:
        return
    doing = [text for inner in messages for text in _doing(inner)]
    failed = [inner.span.error for inner in messages if inner.span.error]
    number = f"{len(messages)} messages" if len(messages) > 1 else "1 message"
    # A refusal is an answer: plugins create first, and accept that something exists.
    title = "\n".join([*doing, *(f"refused: {error}" for error in failed)])
    yield _arrow("call", lane, KERNEL, f"{step.span.name}: {number}", f"\n{title}", is_error=False)


def _doing(step: Step) -> list[str]:
    doing = step.span.attributes.get("doing")
    return [str(each) for each in doing] if isinstance(doing, list) and doing else [step.span.name]


def _arrow(
    kind: Literal["call", "answer", "note"], source: str, target: str, text: str, more: str, *, is_error: bool
) -> Arrow:
    title = "\n".join(map(printable, (text + more).split("\n")))
    return Arrow(kind, source, target, printable(text), title, is_error)


def sequence_svg(found: Sequence[Arrow]) -> list[str]:
    """Return the lines of the drawing: a column for each lane, a row for each arrow; at most 400 rows."""
    named = dict.fromkeys(lane for arrow in found for lane in (arrow.source, arrow.target))
    # Kubelet, runtime, each plugin in the order of its first call, the kernel.
    lanes = sorted(named, key=lambda lane: {KUBELET: 0, RUNTIME: 1, KERNEL: 3}.get(lane, 2))
    columns = {lane: _MARGIN + number * _LANE for number, lane in enumerate(lanes)}
    drawn = found[:_MOST]
    width = 2 * _MARGIN + max(0, len(lanes) - 1) * _LANE
    height = _TOP + (len(drawn) + 1) * _ROW
    return [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="sequence" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="Who calls whom">'
        ),
        *(line for lane, x in columns.items() for line in _lane(lane, x, height)),
        *(line for row, arrow in enumerate(drawn) for line in _row(arrow, columns, _TOP + (row + 0.7) * _ROW, width)),
        "</svg>",
    ]


def _lane(lane: str, x: float, height: float) -> Iterator[str]:
    width, tall = _BOX
    kind = ' class="kernel"' if lane == KERNEL else ""
    yield f"<g{kind}><title>{escape(lane)}</title>"
    yield f'<line class="life" x1="{x}" y1="{tall + 12}" x2="{x}" y2="{height - 8}"/>'
    yield f'<rect x="{x - width / 2:g}" y="12" width="{width}" height="{tall}" rx="6"/>'
    yield f'<text class="lane" x="{x}" y="32">{escape(_short(lane, width - 16))}</text></g>'


def _row(arrow: Arrow, columns: Mapping[str, int], y: float, width: float) -> Iterator[str]:
    start, end = columns[arrow.source], columns[arrow.target]
    kind = quoteattr(f"{arrow.kind} error" if arrow.is_error else arrow.kind)
    yield f"<g class={kind}><title>{escape(arrow.title)}</title>"
    if arrow.kind == "note":
        yield f'<circle cx="{start}" cy="{y:g}" r="4"/>'
        # A note may go on to the next lane, or to the edge.
        room = min(_LANE, width - start) - 20
        yield f'<text class="beside" x="{start + 10}" y="{y + 4:g}">{escape(_short(arrow.text, room))}</text>'
    else:
        way = 1 if end > start else -1
        yield f'<line x1="{start}" y1="{y:g}" x2="{end - way * _HEAD}" y2="{y:g}"/>'
        yield f'<path d="M{end} {y:g}l{-way * _HEAD} -4v8z"/>'
        middle = start + way * _LANE / 2
        yield f'<text x="{middle:g}" y="{y - 6:g}">{escape(_short(arrow.text, _LANE - 16))}</text>'
    yield "</g>"


def _short(text: str, room: float) -> str:
    most = int(room / _CHARACTER)
    return text if len(text) <= most else f"{text[: most - 1]}…"
