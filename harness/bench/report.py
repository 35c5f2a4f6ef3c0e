"""The findings of a run: as a JSON object, with memory and files in bytes and durations in seconds; and as tables."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

from harness.bench.measurements import BenchExtent, Measurements, Ratio, Series, Summary, Work
from harness.bench.suites import SuiteSize
from harness.libcni.networks import NetworkList
from harness.output import TextTable

Document = dict[str, object]

_FORMAT: Final = 2

_MIB: Final = 1 << 20


@dataclass(frozen=True)
class Findings:
    """The findings of a run; all suites are compared with the last one."""

    recording: Measurements
    suites: Sequence[SuiteSize]
    networks: Sequence[NetworkList]
    extent: BenchExtent
    machine: Document

    def document(self) -> Document:
        """Return all of it as a JSON object; ratios are to the last of the suites."""
        recording = self.recording
        return {
            "format": _FORMAT,
            "machine": self.machine,
            "extent": asdict(self.extent),
            "suites": [
                {
                    "name": each.suite.name,
                    "folders": [str(folder) for folder in each.suite.bin_dirs],
                    "served": each.suite.served,
                    "form": each.form,
                    "plugins": each.plugins,
                    "code": each.code,
                }
                for each in self.suites
            ],
            "overhead": asdict(Summary.of(recording.overhead)),
            "series": [_series(series) for series in recording.series],
            "ratios": _ratios(recording, self.names),
            "cpu": [_series(series) for series in recording.cpu],
            "memory": [asdict(memory) for memory in recording.memory],
        }

    def tables(self) -> dict[str, TextTable]:
        """Return it as tables by their names, without empty ones; ratios are to the last of the suites."""
        tables = {
            "latency": _latency(self.recording, self.names),
            "crowds": _crowds(self.recording, self.names),
            "growth": _growth(self.recording, self.names),
            "costs": _costs(self.recording, self.suites),
        }
        return {name: table for name, table in tables.items() if table.rows}

    @property
    def names(self) -> list[str]:
        """The names of the suites."""
        return [each.suite.name for each in self.suites]


def machine() -> Document:
    """Describe the machine as it is now, its load included."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "processor": next(names, platform.machine()),
        "processors": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def _series(series: Series) -> Document:
    return {
        "suite": series.suite,
        **asdict(series.work),
        **asdict(Summary.of(series.samples)),
        "samples": series.samples,
    }


def _ratios(recording: Measurements, suites: Sequence[str]) -> list[Document]:
    reference = suites[-1]
    found: list[Document] = []
    for series in recording.series:
        theirs = recording.samples(reference, series.work)
        if theirs and series.suite != reference:
            ratio = Ratio.of(series.samples, theirs)
            found.append({"suite": series.suite, "to": reference, **asdict(series.work), **asdict(ratio)})
    return found


def _latency(recording: Measurements, suites: Sequence[str]) -> TextTable:
    rows = [["", "/bin/true", "", "", *_figures(recording.overhead), ""]] if recording.overhead else []
    for work in recording.works:
        if work.cold:
            continue
        for suite in suites:
            if samples := recording.samples(suite, work):
                ratio = _ratio(recording, suite, suites[-1], work)
                name = f"{work.verb} {work.plugin}".strip()
                rows.append([work.network, name, f"{work.pods:,}", suite, *_figures(samples), ratio])
    return TextTable(("network", "verb", "pods", "suite", "n", "min, ms", "median", "p90", "p99", "ratio"), rows)


def _crowds(recording: Measurements, suites: Sequence[str]) -> TextTable:
    rows = []
    for work in recording.works:
        if work.cold:
            medians = [_median_ms(recording.samples(suite, work)) for suite in suites]
            ratio = _ratio(recording, suites[0], suites[-1], work)
            rows.append([work.network, work.verb, str(work.at_once), *medians, ratio])
    return _without_empty_columns(
        TextTable(("network", "verb", "at once", *[f"{suite}, ms" for suite in suites], "ratio"), rows)
    )


def _growth(recording: Measurements, suites: Sequence[str]) -> TextTable:
    rows = []
    for work in recording.works:
        if not work.pods or work.plugin:
            continue
        none = Work(work.verb, work.network)
        row = [work.network, work.verb, f"{work.pods:,}"]
        for suite in suites:
            many, few = recording.samples(suite, work), recording.samples(suite, none)
            row.append(f"{Ratio.of(many, few).value:.2f}" if many and few else "")
        rows.append(row)
    return _without_empty_columns(TextTable(("network", "verb", "pods", *suites), rows))


def _costs(recording: Measurements, suites: Sequence[SuiteSize]) -> TextTable:
    networks = list(dict.fromkeys(each.network for each in recording.memory))
    rows = []
    for network in networks:
        for each in suites:
            name = each.suite.name
            cpu = [_median_ms(recording.samples(name, Work(verb, network), cpu=True)) for verb in ("ADD", "DEL")]
            memory = [one for one in recording.memory if (one.network, one.suite) == (network, name)]
            rss = _mib(memory[-1].peak_rss) if memory else ""
            server = _mib(memory[-1].server_pss) if memory and memory[-1].server_pss else ""
            rows.append([network, name, *cpu, rss, server, _mib(each.plugins), _mib(each.code) if each.code else ""])
    headings = ("CPU of ADD, ms", "CPU of DEL, ms", "peak RSS, MiB", "server, MiB", "plugins, MiB", "code, MiB")
    return TextTable(("network", "suite", *headings), rows)


def _figures(samples: Sequence[float]) -> list[str]:
    summary = Summary.of(samples)
    return [str(summary.count), *map(_ms, (summary.min, summary.median, summary.p90, summary.p99))]


def _ratio(recording: Measurements, suite: str, reference: str, work: Work) -> str:
    ours, theirs = recording.samples(suite, work), recording.samples(reference, work)
    return f"{Ratio.of(ours, theirs).value:.2f}" if ours and theirs and suite != reference else ""


def _median_ms(samples: Sequence[float]) -> str:
    return _ms(median(samples)) if samples else ""


def _without_empty_columns(table: TextTable) -> TextTable:
    if not table.rows:
        return table
    kept = [index for index, column in enumerate(zip(*table.rows, strict=True)) if any(column)]
    return TextTable([table.headings[index] for index in kept], [[row[index] for index in kept] for row in table.rows])


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def _mib(size: int) -> str:
    return f"{size / _MIB:.1f}" if size >= _MIB // 10 else f"{size / _MIB:.2f}"
