"""Control groups: they count the CPU time of all their processes, also after the end of a process (cgroups(7))."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mounts")
_QUIET_READINGS: Final = 4
_QUIET_S: Final = 0.0001
"""The most CPU time that a group uses within the quiet readings: idle processes may look at a clock."""
_POLL_S: Final = 0.015
_REST_S: Final = 60.0


class ControlGroupError(Exception):
    """No control group counts CPU time, or the processes of one do not come to rest."""


@dataclass(frozen=True)
class ControlGroup:
    """One group, in a mounted hierarchy of version 1 or 2; its folder exists."""

    folder: Path

    def add(self, pid: int) -> None:
        """Move a process into the group; its children will begin there. Raises OSError."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def cpu_seconds(self) -> float:
        """Return the CPU time up to now, in user space and in the kernel. Raises OSError."""
        usage = self.folder / "cpuacct.usage"
        if usage.exists():
            return int(usage.read_text()) / 1e9
        # cpu.stat of version 2 exists whichever controllers are enabled.
        words = (self.folder / "cpu.stat").read_text().split()
        return int(words[words.index("usage_usec") + 1]) / 1e6

    def cpu_seconds_at_rest(self) -> float:
        """Wait until the processes use no CPU time any more, and return it. Raises ControlGroupError."""
        deadline = time.monotonic() + _REST_S
        readings = [self.cpu_seconds()]
        while len(readings) < _QUIET_READINGS or readings[-1] - readings[-_QUIET_READINGS] > _QUIET_S:
            if time.monotonic() > deadline:
                raise ControlGroupError(f"{self.folder}: its processes do not come to rest")
            time.sleep(_POLL_S)
            readings.append(self.cpu_seconds())
        return readings[-1]


@contextmanager
def control_group(name: str) -> Iterator[ControlGroup]:
    """Make a group for the with block; processes that are in it then are killed. Raises ControlGroupError, OSError."""
    folder = _hierarchy() / name
    folder.mkdir()
    try:
        yield ControlGroup(folder)
    finally:
        _remove(folder)


def _hierarchy() -> Path:
    """Return the mount point of cpuacct of version 1, otherwise of version 2."""
    mounts = [line.split()[1:4] for line in _MOUNTS.read_text().splitlines()]
    first = [path for path, kind, options in mounts if kind == "cgroup" and "cpuacct" in options.split(",")]
    second = [path for path, kind, _ in mounts if kind == "cgroup2"]
    for path in (*first, *second):
        return Path(path)
    raise ControlGroupError("no control groups are mounted, and nothing else counts the CPU time of a suite")


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + _REST_S
    while True:
        for pid in (folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return
