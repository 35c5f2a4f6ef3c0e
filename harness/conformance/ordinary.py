"""The leftovers of an ordinary ADD and DEL: one check reports them, and the others do not report them again."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.requests import TrialContainer
from harness.conformance.trial import Trial
from harness.overload import overload
from harness.snapshot import Difference, Snapshot

_SETTLING_SECONDS: Final = 5.0
_PAUSE: Final = 0.05

_Kind: TypeAlias = tuple[str, str, str]


def settled(trial: Trial, before: Snapshot, *containers: TrialContainer) -> list[Difference]:
    """Return the differences to `before` that remain once the kernel has finished its removals in the background."""
    began = time.monotonic()
    left = trial.leftovers(before, trial.snapshot(*containers))
    while left and time.monotonic() < began + max(_SETTLING_SECONDS, overload()):
        time.sleep(_PAUSE)
        left = trial.leftovers(before, trial.snapshot(*containers))
    return left


def beyond_ordinary(trial: Trial, left: Sequence[Difference], attachments: int = 1) -> list[Difference]:
    """Return the differences of which there are more than an ordinary ADD and DEL leave, for so many attachments.

    `left` are the differences after unusual requests. They are compared by place and kind, since their names vary from
    container to container. A container on another node shows the ordinary ones; if it fails, all of `left` count.
    """
    if not left:
        return []
    usual, times = _ordinary(trial), Counter(map(_kind_of, left))
    return [each for each in left if times[_kind_of(each)] > usual[_kind_of(each)] * attachments]


def _kind_of(difference: Difference) -> _Kind:
    """Return the place, the kind of thing and the kind of difference; all pods are one place."""
    return difference.place.rstrip("0123456789"), difference.thing, difference.kind


def _ordinary(trial: Trial) -> Counter[_Kind]:
    elsewhere = Trial(trial.subject, trial.site, trial.options)
    try:
        elsewhere.warm_up()
        before = elsewhere.snapshot()
        elsewhere.attach()
        elsewhere.detach()
    except (ViolationError, NotApplicableError):
        return Counter()
    return Counter(map(_kind_of, settled(elsewhere, before)))
