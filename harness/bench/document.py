"""The whole of a run as a JSON object: durations in seconds, memory and files in bytes."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from harness.bench.measurements import BenchExtent, Measurements, Ratio, Series, Summary
from harness.bench.suites import SuiteSize

Document = dict[str, object]

_FORMAT: Final = 2


def to_document(recording: Measurements, suites: Sequence[SuiteSize], extent: BenchExtent, where: Document) -> Document:
    """Put the measurements together; ratios are to the last of the suites."""
    return {
        "format": _FORMAT,
        "machine": where,
        "extent": asdict(extent),
        "suites": [_suite(each) for each in suites],
        "overhead": asdict(Summary.of(recording.overhead)),
        "series": [_series(series) for series in recording.series],
        "ratios": _ratios(recording, [each.suite.name for each in suites]),
        "cpu": [_series(series) for series in recording.cpu],
        "memory": [asdict(memory) for memory in recording.memory],
    }


def machine() -> Document:
    """Describe the machine as it is now, its load included."""
    return {
        "processor": _processor(),
        "processors": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _suite(each: SuiteSize) -> Document:
    return {
        "name": each.suite.name,
        "folders": [str(folder) for folder in each.suite.bin_dirs],
        "served": each.suite.served,
        "form": each.form,
        "plugins": each.plugins,
        "code": each.code,
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
