"""What is wrong with a result, but for what was wrong before: that, a chained plugin has to hand on."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from harness.conformance.trial import Trial
from harness.conformance.verdict import ViolationError
from skel.result import Result

__all__ = ["Flaw", "demand_no_new"]


class Flaw(NamedTuple):
    """What is `expected` of a result, and what is there instead."""

    expected: str
    got: str


def demand_no_new(trial: Trial, flaws: Callable[[Trial, Result], Iterable[Flaw]]) -> Result:
    """ADD, and demand a result without flaws; return it.

    The same being expected of prevResult already, held against what is there before this ADD, it is no flaw of this
    plugin's.
    """
    trial.prepare(trial.container)
    given = trial.prev_result()
    known = set() if given is None else {flaw.expected for flaw in flaws(trial, Result.decode_any(given))}
    result = trial.attach()
    for flaw in flaws(trial, result):
        if flaw.expected not in known:
            raise ViolationError(flaw.expected, flaw.got)
    return result
