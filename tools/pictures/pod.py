"""Draws docs/pod.svg: who does what from a manifest to a running Pod.

`make pictures` writes the file; the same program gives the same bytes. The numbers are the sections of
docs/walkthrough.md. Colours follow the reader's light or dark mode.
"""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

PICTURE: Final = Path(__file__).resolve().parents[2] / "docs" / "pod.svg"


class Step(NamedTuple):
    """An arrow from one lane to another, or a note on one lane; `section` is a number in the walkthrough."""

    section: int
    source: str
    target: str
    text: str


_LANES: Final = {"kubelet": 120, "runtime": 330, "plugins": 540, "kernel": 750}
_TITLES: Final = {
    "kubelet": ("kubelet", "harness/kubelet"),
    "runtime": ("container runtime", "harness/cri"),
    "plugins": ("CNI plugins", "any language"),
    "kernel": ("kernel", "what you can look at"),
}
STEPS: Final = (
    Step(1, "kubelet", "kubelet", "manifest: defaults, checks, UID"),
    Step(2, "kubelet", "kubelet", "pod worker: SyncPod, volumes"),
    Step(3, "kubelet", "runtime", "RunPodSandbox"),
    Step(3, "runtime", "kernel", "network namespace"),
    Step(4, "runtime", "plugins", "AddNetworkList: ADD, stdin"),
    Step(5, "plugins", "kernel", "PluginMain: veth, nftables"),
    Step(4, "plugins", "runtime", "result: the Pod's addresses"),
    Step(3, "runtime", "kernel", "pause process: IPC, UTS"),
    Step(6, "kubelet", "runtime", "Create-, StartContainer"),
    Step(6, "runtime", "kernel", "shim, runc: the process"),
    Step(7, "kubelet", "kernel", "readiness probe: GET /"),
    Step(8, "kernel", "kernel", "the first byte"),
)
"""All steps, from top to bottom."""

_WIDTH: Final = 870
_TOP: Final = 84
_ROW: Final = 34
_NOTE: Final = 204
_STYLE: Final = """
text { font: 12px "DejaVu Sans", Helvetica, Arial, sans-serif; fill: #222 }
.title { font-weight: bold; font-size: 13px }
.sub, .number { font-size: 11px; fill: #666 }
.paper { fill: #fff } .lane { stroke: #bbb; stroke-dasharray: 3 4 } .box { fill: #eef3fb; stroke: #5b6b8c }
.arrow { stroke: #5b6b8c; stroke-width: 1.4; marker-end: url(#head) } #head path { fill: #5b6b8c }
.disc { fill: #5b6b8c } .number { fill: #fff; font-weight: bold }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e6e6 } .sub { fill: #a0a0a0 } .paper { fill: #16181d } .lane { stroke: #555 }
  .box { fill: #232a38; stroke: #8fa3cc } .arrow { stroke: #8fa3cc } #head path { fill: #8fa3cc }
  .disc { fill: #8fa3cc } .number { fill: #16181d }
}
"""
_HEAD: Final = (
    '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 10 5 0 10z"/></marker></defs>'
)


def drawing() -> str:
    """Return the picture as an SVG document."""
    return "\n".join(_elements()) + "\n"


def _elements() -> Iterator[str]:
    height = _TOP + _ROW * len(STEPS) + 14
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield "<title>From a manifest to a running Pod</title>"
    yield f"<style>{_STYLE}</style>"
    yield _HEAD
    yield f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="8"/>'
    for lane, x in _LANES.items():
        title, sub = _TITLES[lane]
        yield f'<rect class="box" x="{x - 85}" y="12" width="170" height="46" rx="4"/>'
        yield _text(x, 32, title, "title")
        yield _text(x, 48, sub, "sub")
        yield f'<line class="lane" x1="{x}" y1="58" x2="{x}" y2="{height - 8}"/>'
    for row, step in enumerate(STEPS):
        yield from _step(step, _TOP + _ROW * row)
    yield "</svg>"


def _step(step: Step, y: int) -> Iterator[str]:
    source, target = _LANES[step.source], _LANES[step.target]
    if source == target:
        yield f'<rect class="box" x="{source - _NOTE // 2}" y="{y - 13}" width="{_NOTE}" height="24" rx="4"/>'
        yield from _number(step.section, source - _NOTE // 2, y - 1)
        yield _text(source + 4, y + 3, step.text)
        return
    way = 1 if target > source else -1
    yield f'<line class="arrow" x1="{source}" y1="{y + 6}" x2="{target - way}" y2="{y + 6}"/>'
    yield from _number(step.section, source, y + 6)
    # Above the first stretch of a long arrow, so that no lane runs through the text.
    yield _text(source + way * 105, y, step.text)


def _number(section: int, x: int, y: int) -> Iterator[str]:
    yield f'<circle class="disc" cx="{x}" cy="{y}" r="8"/>'
    yield _text(x, y + 4, str(section), "number")


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="middle"{style}>{escape(text)}</text>'
