"""The load of this machine as a factor for time limits of programs."""

import os
from pathlib import Path
from typing import Final

_LOADAVG: Final = Path("/proc/loadavg")


def overload() -> float:
    """Return the number of runnable processes per processor, now or in the last minute, at least 1.

    A time limit is multiplied by it when the time is over, so that the load during that time counts.
    """
    # "32.11 30.33 24.86 46/368 6013", proc_loadavg(5): the load of a minute, and the runnable threads out of all.
    fields = _LOADAVG.read_text().split()
    runnable = max(float(fields[0]), float(fields[3].partition("/")[0]))
    return max(1.0, runnable / (os.cpu_count() or 1))
