"""Statistics of measured times. Durations are in seconds."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self, TypeVar

_RESAMPLES = 1000
_CONFIDENCE = 0.95
_DIGITS = 9

T = TypeVar("T")


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
