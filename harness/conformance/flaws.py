"""Flaws of a result that its prevResult did not have: a chained plugin has to hand on the others."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from harness.conformance.finding import ViolationError
from harness.conformance.trial import Trial
from skel.result import Result


class Flaw(NamedTuple):
    """A demand on a result, `expected`, and the contrary fact."""

    expected: str
    got: str


def demand_no_new(trial: Trial, flaws: Callable[[Trial, Result], Iterable[Flaw]]) -> Result:
    """ADD, and demand a result without flaws; return it.

    A flaw that prevResult has already, compared with the kernel's state before this ADD, does not count: another plugin
    has made it.
    """
    trial.prepare(trial.container)
    given = trial.prev_result()
    known = set() if given is None else {flaw.expected for flaw in flaws(trial, Result.decode_any(given))}
    result = trial.attach()
    for flaw in flaws(trial, result):
        if flaw.expected not in known:
            raise ViolationError(flaw.expected, flaw.got)
    return result
