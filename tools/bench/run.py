"""One run from beginning to end: the rows, printed as they come, and the pages that show them."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.bench.measure import run_bench
from harness.bench.measurements import BenchExtent
from harness.bench.plot import check_plots, plot
from harness.bench.report import Document, machine
from harness.bench.suites import OURS, REFERENCE, BenchSuite
from harness.runtime.site import Site
from tools.bench.loops import Loops
from tools.bench.pages import check_markers, markdown, write_between_markers
from tools.bench.rows import Extent, Judged, chosen, judged, rows, table
from tools.bench.subjects import DIRECT

if TYPE_CHECKING:
    from harness.bench.measurements import Measurements

_ROOT: Final = Path(__file__).resolve().parents[2]
_PAGES: Final = (_ROOT / "docs" / "performance.md",)
_PICTURES: Final = (_ROOT / "docs" / "performance.svg", _ROOT / "build" / "bench.svg", _ROOT / "build" / "bench.png")
_DOCUMENT: Final = _ROOT / "build" / "bench.json"


@dataclass(frozen=True)
class Run:
    """The measurements, their number, and the machine."""

    results: Sequence[Judged]
    extent: Extent
    machine: Document

    def document(self) -> Document:
        """Return it as a JSON object; durations are in seconds."""
        return {
            "machine": self.machine,
            "extent": asdict(self.extent),
            "rows": [each.document() for each in self.results],
        }

    def conditions(self) -> str:
        """Say in a sentence of Markdown under which conditions it was measured."""
        where = self.machine
        return (
            f"{where['processor']}, {where['processors']} processors, Linux {where['kernel']}, "
            f"Python {where['python']}; load before the run {where['load']}; {self.extent.rounds} rounds, "
            f"{self.extent.repetitions} of many at once."
        )


def measure(suites: Mapping[str, BenchSuite], extent: Extent, state_dir: Path, pattern: str = "") -> Run:
    """Measure the rows that `pattern` chooses, and print them loop by loop: all take a while.

    Raises PluginFailedError, PluginNotFoundError, PopulationError, ServerError, ControlGroupError, NodeError, OSError.
    """
    wanted = chosen(rows(extent), pattern)
    where = machine()
    recordings: dict[str, Measurements] = {}
    for loop in dict.fromkeys(row.loop for row in wanted):
        with Site(state_dir, "bench") as site:
            _say(f"{loop}: nodes {site.name}-N")
            recordings[loop] = Loops(site, suites, extent).run(loop)
        shown = table(judged([row for row in wanted if row.loop == loop], recordings))
        sys.stdout.write(f"{shown.render(colour=False)}\n\n")
        sys.stdout.flush()
    return Run(judged(wanted, recordings), extent, where)


def check_pages() -> None:
    """Raise MarkerError, PlotError or OSError where `write_pages` would fail, which comes after a long run."""
    check_markers(_PAGES)
    check_plots(_PICTURES)


def write_pages(run: Run, suites: Mapping[str, BenchSuite], state_dir: Path) -> None:
    """Do what `cni-harness bench` does, and put all tables into docs/performance.md. Raises what `measure` does."""
    compared = [suites[name] for name in (OURS, DIRECT, REFERENCE)]
    findings = run_bench(compared, [], BenchExtent(), state_dir=state_dir, progress=_say)
    tables = {"targets": table(run.results), **findings.tables()}
    texts = {name: markdown(each) for name, each in tables.items()} | {"conditions": run.conditions()}
    for page in _PAGES:
        write_between_markers(page, texts)
    plot(findings.recording, [suite.name for suite in compared], [each.name for each in findings.networks], _PICTURES)
    _DOCUMENT.write_text(json.dumps(run.document() | {"bench": findings.document()}))


def _say(what: str) -> None:
    sys.stderr.write(f"{what}\n")
