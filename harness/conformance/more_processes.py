"""Processes that come on top of those that were there: a restarted one has another number, but is not one more."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from harness.conformance.trial import Trial
from harness.overload import overload
from harness.runtime.processes import Process

_SECONDS: Final = 5.0
"""Time for a process to notice that the object of its work is gone."""
_PAUSE: Final = 0.05


def settled_processes(trial: Trial) -> list[Process]:
    """Return the trial's processes once two readings agree: one that was just started has not its own name yet."""
    deadline = time.monotonic() + max(_SECONDS, overload())
    found = trial.site.processes()
    while time.monotonic() < deadline:
        time.sleep(_PAUSE)
        earlier, found = found, trial.site.processes()
        if earlier == found:
            break
    return found


def more_processes(trial: Trial, before: Sequence[Process]) -> list[Process]:
    """Return the new processes of each program that more of them execute than before, after time for their end."""
    began = time.monotonic()
    left = _come_on_top(before, trial.site.processes())
    while left and time.monotonic() < began + max(_SECONDS, overload()):
        time.sleep(_PAUSE)
        left = _come_on_top(before, trial.site.processes())
    return left


def _come_on_top(before: Sequence[Process], now: Sequence[Process]) -> list[Process]:
    known = {(each.pid, each.started) for each in before}
    earlier, later = Counter(map(_program, before)), Counter(map(_program, now))
    return [
        each
        for each in now
        if (each.pid, each.started) not in known and later[_program(each)] > earlier[_program(each)]
    ]


def _program(process: Process) -> str:
    return process.command.partition(" ")[0]
