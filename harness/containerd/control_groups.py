"""Control groups, of version 1 and 2, as far as this machine allows: limits, the count of OOM kills, and removal.

runc makes the groups of its containers itself. A machine may have them read-only, or not at all; containers then run
without limits. Only the standard library is imported: the shim uses this module.
"""

import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

ROOT: Final = "/sys/fs/cgroup"
_CONTROLLERS: Final = ("memory", "cpu", "pids")
"""Of version 1: those whose limits are set, and the one that lists a container's processes at the least cost."""
_ROUNDS: Final = 100
_PAUSE_S: Final = 0.01
_DEFAULT_PERIOD: Final = 100_000  # microseconds
_MIN_SHARES, _MAX_SHARES, _MAX_WEIGHT = 2, 262_144, 9999


class OomKills(NamedTuple):
    """The count of processes that the kernel killed for memory in a group."""

    path: str
    before: int

    def now(self) -> int:
        """Return the count at present."""
        return _counted(self.path) or 0


def is_unified() -> bool:
    """Tell whether the machine has version 2 alone."""
    return os.path.exists(f"{ROOT}/cgroup.controllers")


def writable() -> bool:
    """Tell whether groups can be made here: in a container, the file system is often read-only."""
    return os.access(ROOT if is_unified() else f"{ROOT}/memory", os.W_OK)


def folders(name: str) -> list[str]:
    """Return the folders of the group `name`, a path below the root of each hierarchy; none if they are read-only."""
    if not writable():
        return []
    if is_unified():
        return [f"{ROOT}/{name}"]
    return [f"{ROOT}/{each}/{name}" for each in _CONTROLLERS if os.access(f"{ROOT}/{each}", os.W_OK)]


def existing(name: str) -> list[str]:
    """Return the folders of the group `name` that are there: runc makes one in each hierarchy of version 1."""
    tops = [ROOT] if is_unified() else [f"{ROOT}/{each}" for each in os.listdir(ROOT)]
    return [f"{top}/{name}" for top in tops if os.path.isdir(f"{top}/{name}")]


def limits(cpu_period: int, cpu_quota: int, cpu_shares: int, memory: int) -> dict[str, str]:
    """Return the files and contents that stand for limits: times in microseconds, memory in bytes, 0 for none."""
    period = cpu_period or _DEFAULT_PERIOD
    if is_unified():
        # runc's ConvertCPUSharesToCgroupV2Value: shares of 2 to 262,144 become weights of 1 to 10,000.
        weight = 1 + (cpu_shares - _MIN_SHARES) * _MAX_WEIGHT // (_MAX_SHARES - _MIN_SHARES)
        wanted = {
            "memory.max": memory and str(memory),
            "cpu.max": cpu_quota and f"{cpu_quota} {period}",
            "cpu.weight": cpu_shares and str(max(1, weight)),
        }
    else:
        wanted = {
            "memory.limit_in_bytes": memory and str(memory),
            "cpu.cfs_period_us": cpu_quota and str(period),
            "cpu.cfs_quota_us": cpu_quota and str(cpu_quota),
            "cpu.shares": cpu_shares and str(cpu_shares),
        }
    return {name: value for name, value in wanted.items() if value}


def make(paths: Iterable[str], wanted: Mapping[str, str]) -> None:
    """Make the groups, and set the limits whose files are there. Raises OSError."""
    for path in paths:
        if is_unified():
            _delegate(os.path.dirname(path))
        os.makedirs(path, exist_ok=True)
        for name, value in wanted.items():
            if os.path.exists(f"{path}/{name}"):
                _write(f"{path}/{name}", value)


def remove(paths: Iterable[str]) -> None:
    """Kill the processes in the groups, and remove the groups; missing ones are fine."""
    for path in paths:
        for _ in range(_ROUNDS):
            try:
                os.rmdir(path)
            except FileNotFoundError:
                break
            except OSError:  # EBUSY: it has processes, some of which may be ending
                _kill(path)
                time.sleep(_PAUSE_S)
            else:
                break


def oom_kills_in(paths: Iterable[str]) -> OomKills | None:
    """Return the count of OOM kills in one of a group's folders, None if none counts them."""
    return next((found for path in paths if (found := _kills(path)) is not None), None)


def oom_kills_of(pid: int) -> OomKills | None:
    """Return the count of OOM kills in a process's group, None if the machine has none."""
    with open(f"/proc/{pid}/cgroup") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    for _, controllers, name in lines:
        if controllers == "memory":
            return _kills(f"{ROOT}/memory{name}")
        if not controllers and is_unified():
            return _kills(f"{ROOT}{name}")
    return None


def _kills(folder: str) -> OomKills | None:
    path = f"{folder}/memory.events" if is_unified() else f"{folder}/memory.oom_control"
    before = _counted(path)
    return None if before is None else OomKills(path, before)


def _counted(path: str) -> int | None:
    try:
        with open(path) as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), None)
    except OSError:
        return None


def _delegate(path: str) -> None:
    """Pass the controllers on to the groups below each folder of `path`, from the root on."""
    if path.startswith(ROOT):
        if path != ROOT:
            _delegate(os.path.dirname(path))
            os.makedirs(path, exist_ok=True)
        for controller in _CONTROLLERS:
            with suppress(OSError):
                _write(f"{path}/cgroup.subtree_control", f"+{controller}")


def _kill(path: str) -> None:
    with suppress(OSError), open(f"{path}/cgroup.procs") as file:
        for line in file:
            with suppress(ProcessLookupError):
                os.kill(int(line), signal.SIGKILL)


def _write(path: str, value: str) -> None:
    with open(path, "w") as file:
        file.write(value)
