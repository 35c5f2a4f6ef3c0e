"""One run from beginning to end: suites, nodes, measurements, and the removal of all nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.bench.measure import Bench
from harness.bench.measurements import BenchExtent, Measurements
from harness.bench.report import Document, machine, sections, to_document
from harness.bench.suites import BenchSuite, SuiteSize, default_networks, suite_size
from harness.libcni.networks import NetworkList
from harness.runtime.site import Site
from harness.table import Table


@dataclass(frozen=True)
class Findings:
    """The findings of a run; all suites are compared with the last one."""

    recording: Measurements
    suites: Sequence[SuiteSize]
    networks: Sequence[NetworkList]
    extent: BenchExtent
    machine: Document

    def document(self) -> Document:
        """Return all of it as a JSON object."""
        return to_document(self.recording, self.suites, self.extent, self.machine)

    def tables(self) -> dict[str, Table]:
        """Return it as tables, by their names."""
        return sections(self.recording, self.suites)


def run_bench(
    suites: Sequence[BenchSuite],
    networks: Sequence[NetworkList],
    extent: BenchExtent,
    *,
    state_dir: Path,
    progress: Callable[[str], object],
) -> Findings:
    """Measure suites on `networks`; if that is empty, on a bridge without and with masquerading.

    Raises ServerError, PluginFailedError, PluginNotFoundError, NodeError, OSError. In each case, and when interrupted,
    it removes everything that it has made.
    """
    networks = networks or default_networks()
    where = machine()
    sizes = [suite_size(suite, networks) for suite in suites]
    with Site(state_dir, "bench") as site:
        recording = Bench(site, suites, extent, progress=progress).measure(networks)
    return Findings(recording, sizes, networks, extent, where)
