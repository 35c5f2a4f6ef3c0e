"""The load of this machine as a factor for time limits of programs, and waiting that takes it into account."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

_T = TypeVar("_T")

_LOADAVG: Final = Path("/proc/loadavg")
_PAUSE: Final = 0.05
"""Seconds between two readings."""


def overload() -> float:
    """Return the number of runnable processes per processor, now or in the last minute, at least 1.

    A time limit is multiplied by it when the time is over, so that the load during that time counts.
    """
    # "32.11 30.33 24.86 46/368 6013", proc_loadavg(5): the load of a minute, and the runnable threads out of all.
    fields = _LOADAVG.read_text().split()
    runnable = max(float(fields[0]), float(fields[3].partition("/")[0]))
    return max(1.0, runnable / (os.cpu_count() or 1))


def once(read: Callable[[], _T], is_settled: Callable[[_T], bool], seconds: float) -> _T:
    """Return a reading as soon as it is settled, or the one after `seconds`, which are more on a busy machine."""
    began = time.monotonic()
    found = read()
    while not is_settled(found) and time.monotonic() < began + max(seconds, overload()):
        time.sleep(_PAUSE)
        found = read()
    return found
