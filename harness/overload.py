"""How much longer things take on this machine than on an idle one: for time limits of programs that do run."""

import os
from pathlib import Path
from typing import Final

__all__ = ["overload"]

_LOADAVG: Final = Path("/proc/loadavg")


def overload() -> float:
    """Return how many processes there are for a processor: those that run now or did in the last minute, at least 1.

    A time limit is multiplied by it when the time is over, so that it counts the load that there was.
    """
    # "32.11 30.33 24.86 46/368 6013", proc_loadavg(5): the load of a minute, and how many of all threads want to run.
    fields = _LOADAVG.read_text().split()
    runnable = max(float(fields[0]), float(fields[3].partition("/")[0]))
    return max(1.0, runnable / (os.cpu_count() or 1))
