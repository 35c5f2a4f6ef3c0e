"""The resources that processes use, from proc(5), also those of a plugin whose result is complete."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.bench.process import ProcessRequest, TimedProcess

_PROC: Final = Path("/proc")
# Fields of /proc/PID/stat after the name, which may hold any character: state is the first, the parent the second.
_PARENT = 1
_KIB = 1024
_POLL_S: Final = 0.002


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
                servants = process_tree(server) if server is not None else []
                # A launcher that writes a server's answer has its connection open; one that executes does not.
                served = server is not None and any(map(_has_connection, writers))
                seen = Stopped(served, peak_rss(process.pid), _pss(servants))
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


def _pss(pids: Iterable[int]) -> int:
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
