"""What the plugins of this project have to reach, next to the reference's."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from harness.bench.recording import Recording, Work
from harness.bench.subjects import MASQUERADED, PLAIN
from harness.bench.summary import Ratio, Summary

__all__ = ["DIRECT", "OURS", "REFERENCE", "Target", "targets"]

OURS: Final = "cni-harness"
DIRECT: Final = "direct"
REFERENCE: Final = "reference"
"""The names of the suites that are compared where no folders are named."""

_CROWD: Final = 100
_MANY: Final = 5000


@dataclass(frozen=True)
class Target:
    """Two medians in seconds and what their ratio must not exceed; or with nothing to compare with, one in ms."""

    work: str
    ours: float
    theirs: float | None
    at_most: float
    measured: float
    low: float
    high: float

    @property
    def reached(self) -> bool:
        """Whether it is."""
        return self.measured <= self.at_most


@dataclass(frozen=True)
class _Rule:
    """A target: the suite and the work that are measured, and those that they are compared with."""

    work: str
    at_most: float
    ours: tuple[str, Work]
    theirs: tuple[str, Work] | None = None


def targets(recording: Recording) -> list[Target]:
    """Return the targets for which everything was measured."""
    return [target for rule in _RULES for target in _applied(rule, recording)]


def _applied(rule: _Rule, recording: Recording) -> Iterator[Target]:
    ours = recording.samples(*rule.ours)
    theirs = recording.samples(*rule.theirs) if rule.theirs else []
    if ours and theirs:
        ratio = Ratio.of(ours, theirs)
        yield Target(rule.work, median(ours), median(theirs), rule.at_most, ratio.value, ratio.low, ratio.high)
    elif ours and not rule.theirs:
        summary = Summary.of(ours)
        figures = (summary.median * 1000, summary.min * 1000, summary.p90 * 1000)
        yield Target(rule.work, median(ours), None, rule.at_most, *figures)


def _compared(work: str, at_most: float, ours: Work, theirs: Work | None = None) -> _Rule:
    return _Rule(work, at_most, (OURS, ours), (REFERENCE, theirs or ours))


def _growth(work: str, at_most: float, network: str) -> _Rule:
    return _Rule(work, at_most, (OURS, Work("ADD", network, pods=_MANY)), (OURS, Work("ADD", network)))


_RULES: Final = (
    _compared("bridge + host-local: ADD", 0.7, Work("ADD", PLAIN)),
    _compared("the same with `ipMasq`: ADD", 0.35, Work("ADD", MASQUERADED)),
    _compared("the same with `ipMasq`: DEL", 0.5, Work("DEL", MASQUERADED)),
    _compared("100 ADDs at once on a cold node", 0.6, Work("ADD", PLAIN, at_once=_CROWD, cold=True)),
    _compared("the same with `ipMasq`", 0.6, Work("ADD", MASQUERADED, at_once=_CROWD, cold=True)),
    _growth("ADD with 5,000 reserved, over ours with none", 1.2, PLAIN),
    _growth("the same with `ipMasq` and 5,000 masqueraded", 1.2, MASQUERADED),
    _compared("VERSION", 1.5, Work("VERSION")),
    _compared("STATUS, over the reference's VERSION", 1.5, Work("STATUS"), Work("VERSION")),
    _Rule("no server: ADD with `ipMasq`, in ms", 200, (DIRECT, Work("ADD", MASQUERADED))),
    _Rule("no server: VERSION, in ms", 30, (DIRECT, Work("VERSION"))),
)
