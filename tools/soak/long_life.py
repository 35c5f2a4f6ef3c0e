"""ADD, CHECK and DEL, thousands of times, through the living workers of one server: what do they collect?"""

from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from harness.conformance.check_options import CheckOptions
from harness.conformance.engine import expect
from harness.conformance.engine.requests import TrialContainer
from harness.conformance.engine.trial import Trial
from harness.runtime.site import Site
from tools.soak.soak import subject_in
from tools.soak.suite import socket_in, start_server, stop_server, write_launchers
from tools.soak.workers import Sample, sample_all

_OPTIONS = CheckOptions(timeout=300)
_EVERY = 10
"""Cycles between two samples."""
_MOST_GROWTH_KIB = 1024
"""From the second third of the samples to the last one, of the memory of a process: what malloc may not give back.

In the first third a worker comes to have pages of its own, which it shared with the server.
"""
_MOST_GROWTH_OF_SERVER_KIB = 128
"""The same for the server, which lives on and hands its memory down to every new worker."""
_MOST_KEPT = 4
"""Descriptors that a worker opens at their first use, and keeps."""
_THIRDS = 3
_REST_SECONDS = 0.5
"""Before a sample: longer than a worker is without work until it collects garbage."""


@dataclass
class Life:
    """The samples of each process, in the order of time."""

    server: int
    cycles: int = 0
    ends: list[str] = field(default_factory=list)
    """The server's log lines about workers that ended before their time."""
    samples: dict[int, list[Sample]] = field(default_factory=lambda: defaultdict(list))

    @property
    def workers(self) -> list[list[Sample]]:
        """Return the samples of the workers, those of each in a list of its own."""
        return [samples for pid, samples in self.samples.items() if pid != self.server]

    @property
    def rss_kib(self) -> dict[str, int]:
        """Return the memory of the server at the end, and of workers when they are new, and at most."""
        return {
            "server": self.samples[self.server][-1].rss_kib,
            "new worker": round(median(samples[0].rss_kib for samples in self.workers)),
            "largest worker": max(sample.rss_kib for samples in self.workers for sample in samples),
        }

    def growth_of_server(self) -> tuple[int, int]:
        """Return by how much the server's memory, in KiB, and descriptors have grown."""
        return _growth([self.samples[self.server]])

    def growth_of_workers(self) -> tuple[int, int]:
        """Return by how much workers grow with their age: in memory, in KiB, and descriptors."""
        return _growth(self.workers)

    def growth_of_generations(self) -> tuple[int, int]:
        """Return by how much the last workers are larger than the first ones were, at the ends of their lives."""
        return _growth([[samples[-1] for samples in self.workers if len(samples) > 1]])

    def faults(self) -> list[str]:
        """Return in words the values that grew."""
        found = list(self.ends)
        for whose, (memory, descriptors), most_kib, most_descriptors in (
            ("the server", self.growth_of_server(), _MOST_GROWTH_OF_SERVER_KIB, 0),
            ("a worker, as it gets older,", self.growth_of_workers(), _MOST_GROWTH_KIB, _MOST_KEPT),
            ("a later worker", self.growth_of_generations(), _MOST_GROWTH_KIB, _MOST_KEPT),
        ):
            if memory > most_kib:
                found.append(f"{whose} has {memory} KiB more")
            if descriptors > most_descriptors:
                found.append(f"{whose} has {descriptors} descriptors more")
        return found


def live(folder: Path, root: Path, cycles: int, *, jobs: int = 2) -> Life:
    """Go through so many cycles on one node, `jobs` containers at once, on which the server of the checkout runs too.

    Raises ViolationError for a call that fails.
    """
    subject = subject_in(write_launchers(folder / "long-life", root, str(socket_in(folder))))
    with Site(folder / "state", "long-life") as site:
        trial = Trial(subject, site, _OPTIONS)
        server = trial.node.run(lambda: start_server(folder, root))
        try:
            life = Life(server.pid)
            trial.warm_up()
            containers = [trial.new_container() for _ in range(jobs)]
            with ThreadPoolExecutor(jobs) as threads:
                for _ in range(0, cycles, _EVERY * jobs):
                    list(threads.map(lambda container: _some(trial, container), containers))
                    trial.executions.clear()
                    life.cycles += _EVERY * jobs
                    for sample in sample_all(server.pid, rest=_REST_SECONDS):
                        life.samples[sample.pid].append(sample)
        finally:
            stop_server(server)
    log = (folder / "server.log").read_text(encoding="utf-8")
    life.ends = [line for line in log.splitlines() if " ends: " in line or " was ended by " in line]
    return life


def _some(trial: Trial, container: TrialContainer) -> None:
    for _ in range(_EVERY):
        trial.attach(container)
        expect.succeeded(trial.check(container))
        trial.detach(container)


def _growth(lives: Iterable[list[Sample]]) -> tuple[int, int]:
    """Return the median growth of memory, in KiB, and the largest of descriptors: late in lives over early in them."""
    memory, descriptors = [0], [0]
    for samples in lives:
        share = len(samples) // _THIRDS
        if share == 0:
            continue
        early, late = samples[-2 * share : -share], samples[-share:]
        memory.append(round(median(each.rss_kib for each in late) - median(each.rss_kib for each in early)))
        descriptors.append(max(each.descriptors for each in late) - max(each.descriptors for each in early))
    return round(median(memory[1:] or memory)), max(descriptors)
