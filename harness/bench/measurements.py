"""The extent of a run, its measurements, and their statistics. Durations are in seconds."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Self, TypeVar

_RESAMPLES = 1000
_CONFIDENCE = 0.95
_DIGITS = 9  # of seconds: the clock counts nanoseconds

T = TypeVar("T")


@dataclass(frozen=True)
class BenchExtent:
    """The extent of the measurements."""

    rounds: int = 60
    """The number of turns of each suite in a series of single executions."""
    pods: tuple[int, ...] = (0, 1000, 5000)
    """For each node, the number of pods whose reservations and masquerading it already has."""
    at_once: tuple[int, ...] = (1, 8, 32, 100)
    """The numbers of simultaneous ADDs, each on a node without any ADD before."""
    repetitions: int = 5
    """The number of repetitions of each of these."""
    batch: int = 25
    """The number of consecutive executions that share one reading of CPU time."""
    timeout: float = 120.0
    """Seconds for an execution, or for all that run at once."""


QUICK = BenchExtent(rounds=5, pods=(0, 20), at_once=(1, 4), repetitions=1, batch=3)
"""Enough to see that every measurement works."""


@dataclass(frozen=True)
class Work:
    """The timed work, and its conditions."""

    verb: str
    """ADD, DEL, VERSION or STATUS."""
    network: str = ""
    plugin: str = ""
    """One plugin's share of a list with several; empty for the whole list."""
    pods: int = 0
    at_once: int = 1
    cold: bool = False
    """On a node that began without pods; otherwise it has one, so the bridge and the firewall's tables exist."""


@dataclass(frozen=True)
class Series:
    """Wall times or CPU times of one suite's work, in seconds, in the order of their rounds."""

    work: Work
    suite: str
    samples: list[float]


@dataclass(frozen=True)
class Memory:
    """Memory at the end of an ADD, in bytes.

    `peak_rss` is the peak resident memory of the process that the runtime starts. `server_pss` is the proportional set
    size of the server with all its workers, including the busy one.
    """

    network: str
    suite: str
    peak_rss: int
    server_pss: int


@dataclass
class Measurements:
    """All measurements."""

    overhead: list[float] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    _series: dict[tuple[bool, str, Work], Series] = field(default_factory=dict)
    """All series; the first part of the key tells those of CPU times."""

    @property
    def series(self) -> list[Series]:
        """All series of wall times, in the order in which they were begun."""
        return [series for (cpu, *_), series in self._series.items() if not cpu]

    @property
    def cpu(self) -> list[Series]:
        """All series of CPU times; each time is the average of several executions."""
        return [series for (cpu, *_), series in self._series.items() if cpu]

    @property
    def works(self) -> list[Work]:
        """The work of all series of wall times."""
        return list(dict.fromkeys(series.work for series in self.series))

    def add(self, suite: str, work: Work, seconds: float, *, cpu: bool = False) -> None:
        """Note one more wall time, or CPU time."""
        self._series.setdefault((cpu, suite, work), Series(work, suite, [])).samples.append(seconds)

    def samples(self, suite: str, work: Work, *, cpu: bool = False) -> list[float]:
        """Return the wall times, or CPU times, of a series; none if it was not measured."""
        series = self._series.get((cpu, suite, work))
        return series.samples if series is not None else []


def in_turns(subjects: Sequence[T], rounds: int) -> Iterator[T]:
    """Give every subject its turn in each round; every second round in reverse.

    For two subjects the order is A, B, B, A, A, B… Slow changes of the machine affect all subjects alike. No subject
    always follows the same other one.
    """
    for number in range(rounds):
        yield from subjects if number % 2 == 0 else reversed(subjects)


def percentile(samples: Sequence[float], percent: float) -> float:
    """Return the smallest sample that `percent` of all samples do not exceed (nearest rank): always a measured one."""
    return sorted(samples)[max(0, math.ceil(len(samples) * percent / 100) - 1)]


@dataclass(frozen=True)
class Summary:
    """The statistics of a series of samples; `mad` is the median absolute deviation from the median."""

    count: int
    min: float
    median: float
    p90: float
    p99: float
    max: float
    mad: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Self:
        """Summarize one or more samples."""
        middle = median(samples)
        return cls(
            count=len(samples),
            min=_rounded(min(samples)),
            median=_rounded(middle),
            p90=_rounded(percentile(samples, 90)),
            p99=_rounded(percentile(samples, 99)),
            max=_rounded(max(samples)),
            mad=_rounded(median(abs(sample - middle) for sample in samples)),
        )


@dataclass(frozen=True)
class Ratio:
    """A ratio of medians, and its interval with a confidence of 95 % by the bootstrap method."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, ours: Sequence[float], theirs: Sequence[float]) -> Self:
        """Divide the median of one series by that of another.

        Series of the same length were taken in the same rounds: these are drawn together, so that a disturbance of both
        does not widen the interval. The draws are the same each time.
        """
        draw = random.Random(len(ours))  # noqa: S311 -- not used for a secret
        ratios = sorted(_drawn(ours, theirs, draw) for _ in range(_RESAMPLES))
        margin = (1 - _CONFIDENCE) / 2 * 100
        return cls(median(ours) / median(theirs), percentile(ratios, margin), percentile(ratios, 100 - margin))


def _drawn(ours: Sequence[float], theirs: Sequence[float], draw: random.Random) -> float:
    first = draw.choices(range(len(ours)), k=len(ours))
    second = first if len(ours) == len(theirs) else draw.choices(range(len(theirs)), k=len(theirs))
    return median(ours[index] for index in first) / median(theirs[index] for index in second)


def _rounded(seconds: float) -> float:
    return round(seconds, _DIGITS)
