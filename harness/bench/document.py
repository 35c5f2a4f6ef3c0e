"""The whole of a run as a JSON object: durations in seconds, memory and files in bytes."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Final

from harness.bench.recording import CpuTime, Extent, Recording, Series
from harness.bench.subjects import Described
from harness.bench.summary import Ratio, Summary
from harness.bench.targets import Target, targets

__all__ = ["Document", "machine", "to_document"]

Document = dict[str, object]

_FORMAT: Final = 1


def to_document(recording: Recording, suites: Sequence[Described], extent: Extent, where: Document) -> Document:
    """Put together what was measured; ratios are to the last of the suites."""
    return {
        "format": _FORMAT,
        "machine": where,
        "extent": asdict(extent),
        "suites": [_suite(each) for each in suites],
        "overhead": asdict(Summary.of(recording.overhead)),
        "targets": [_target(target) for target in targets(recording)],
        "series": [_series(series) for series in recording.series],
        "ratios": _ratios(recording, [each.suite.name for each in suites]),
        "cpu": _cpu(recording.cpu),
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


def _suite(each: Described) -> Document:
    return {
        "name": each.suite.name,
        "folders": [str(folder) for folder in each.suite.bin_dirs],
        "served": each.suite.server is not None,
        "form": each.form,
        "plugins": each.plugins,
        "code": each.code,
    }


def _target(target: Target) -> Document:
    return asdict(target) | {"reached": target.reached}


def _series(series: Series) -> Document:
    return {
        "suite": series.suite,
        **asdict(series.work),
        **asdict(Summary.of(series.samples)),
        "samples": series.samples,
    }


def _ratios(recording: Recording, suites: Sequence[str]) -> list[Document]:
    reference = suites[-1]
    found: list[Document] = []
    for series in recording.series:
        theirs = recording.samples(reference, series.work)
        if theirs and series.suite != reference:
            ratio = Ratio.of(series.samples, theirs)
            found.append({"suite": series.suite, "to": reference, **asdict(series.work), **asdict(ratio)})
    return found


def _cpu(measured: Sequence[CpuTime]) -> list[Document]:
    groups: dict[tuple[str, str, str], list[CpuTime]] = {}
    for each in measured:
        groups.setdefault((each.verb, each.network, each.suite), []).append(each)
    return [
        {
            "verb": verb,
            "network": network,
            "suite": suite,
            "process": fmean(each.process for each in group),
            "server": fmean(each.server for each in group),
        }
        for (verb, network, suite), group in groups.items()
    ]
