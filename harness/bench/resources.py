"""The resources of processes: CPU time counted by control groups (cgroups(7)), memory from proc(5)."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.bench.process import ProcessRequest, TimedProcess

_MOUNTS: Final = Path("/proc/self/mounts")
_QUIET_READINGS: Final = 4
_QUIET_S: Final = 0.0001
"""The most CPU time that a group uses within the quiet readings: idle processes may look at a clock."""
_REST_POLL_S: Final = 0.015
_REST_S: Final = 60.0

_PROC: Final = Path("/proc")
# Fields of /proc/PID/stat after the name, which may hold any character: state is the first, the parent the second.
_PARENT = 1
_KIB = 1024
_POLL_S: Final = 0.002


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
            time.sleep(_REST_POLL_S)
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
            time.sleep(_REST_POLL_S)
        else:
            return


@dataclass(frozen=True)
class Stopped:
    """A plugin that waits to write its result; memory in bytes.

    `served` tells that it was about to write a server's answer, `server_pss` is the proportional set size of all
    processes of the server.
    """

    served: bool
    peak_rss: int
    server_pss: int


def stopped_at_its_result(request: ProcessRequest, server: int | None, timeout: float) -> Stopped | None:
    """Run a plugin, and look at it and at the server with the PID `server` when the result is complete.

    The pipe of standard output is full until then, so the plugin waits. None if it ended without waiting. Raises
    PluginFailedError, OSError.
    """
    process = TimedProcess(request)
    deadline = time.perf_counter() + timeout
    try:
        process.fill_stdout()
        process.spawn()
        seen = None
        while seen is None and not _ended(process.pid) and time.perf_counter() < deadline:
            writers = list(filter(is_writing, process_tree(process.pid)))
            if writers:
                server_processes = process_tree(server) if server is not None else []
                # A launcher that writes a server's answer has its connection open; one that executes does not.
                served = server is not None and any(map(_has_connection, writers))
                seen = Stopped(served, peak_rss(process.pid), memory(server_processes))
            else:
                time.sleep(_POLL_S)
        while process.read():
            pass
        process.wait(deadline)
    finally:
        process.close()
    return seen


def process_tree(pid: int) -> list[int]:
    """Return `pid` and all processes that descend from it, including dead ones that were not waited for."""
    parents = {int(folder.name): _parent(folder) for folder in _PROC.iterdir() if folder.name.isdigit()}
    tree = [pid] if pid in parents else []
    for member in tree:
        tree += [child for child, parent in parents.items() if parent == member]
    return tree


def peak_rss(pid: int) -> int:
    """Return the most memory that a running process has had resident since its execve, in bytes (VmHWM).

    The ru_maxrss of wait4(2) is unusable: it starts with the resident memory of the process that called posix_spawn.
    """
    return _kib(_PROC / str(pid) / "status", "VmHWM:") * _KIB


def memory(pids: Iterable[int]) -> int:
    """Return the memory of running processes in bytes; shared memory is divided among all its sharers."""
    total = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            total += _kib(_PROC / str(pid) / "smaps_rollup", "Pss:") * _KIB
    return total


def is_writing(pid: int) -> bool:
    """Tell whether a thread of a process waits for room in a pipe."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return any("pipe_write" in (task / "wchan").read_text() for task in (_PROC / str(pid) / "task").iterdir())
    return False


def _has_connection(pid: int) -> bool:
    """Tell whether a process has a socket of AF_UNIX open."""
    folder = _PROC / str(pid)
    with suppress(FileNotFoundError, ProcessLookupError):
        files = {str(path.readlink()) for path in (folder / "fd").iterdir()}
        sockets = (folder / "net" / "unix").read_text().splitlines()[1:]
        return any(f"socket:[{line.split()[6]}]" in files for line in sockets)
    return False


def _parent(folder: Path) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        return int((folder / "stat").read_text().rpartition(") ")[2].split()[_PARENT])
    return 0


def _kib(path: Path, key: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0


def _ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
