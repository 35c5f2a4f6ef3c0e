"""The processes on nodes and in pods: listing and killing them. Their names do not matter."""

import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from harness.process_stat import process_stat
from harness.runtime.node import VAR_LIB_CNI

_ROUNDS: Final = 10
"""Rounds of killing. A round may fail if the processes start others meanwhile."""
_MILLISECONDS: Final = 1000
"""How long to wait for a killed process to end."""


class Process(NamedTuple):
    """A process. `started` is in clock ticks since boot; it tells apart processes that had the same PID."""

    pid: int
    started: int
    command: str

    def in_words(self) -> str:
        """Describe the process as ps(1) does."""
        return f"process {self.pid}: {self.command}"


class Region:
    """Network namespaces, and folders mounted at /var/lib/cni; a process belongs to it if it is in one of either.

    A plugin's process may be in a network namespace of its own and still see the node's folder. A process with
    other mounts may still be in the network namespace of the node or of a pod.
    """

    def __init__(self, netns: Iterable[str], var_lib_cni: Iterable[Path]) -> None:
        """Take the namespaces and folders now at these paths. Missing ones are left out."""
        self._netns = {_identity(path) for path in netns} - {None}
        self._folders = {_identity(path) for path in var_lib_cni} - {None}

    def processes(self) -> list[Process]:
        """Return the processes of the region without the calling one, sorted by PID."""
        return [process for pid in self._pids() if (process := _described(pid)) is not None]

    def end_processes(self) -> None:
        """Kill the processes, and wait until they are gone."""
        for _ in range(_ROUNDS):
            pids = self._pids()
            if not pids:
                return
            for pid in pids:
                self._end(pid)

    def _pids(self) -> list[int]:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 -- names only
        return sorted(pid for pid in numbers if pid != os.getpid() and self._has(pid))

    def _has(self, pid: int) -> bool:
        # The path through a process's root follows its own mounts. A zombie has neither namespace nor root.
        return (
            _identity(f"/proc/{pid}/ns/net") in self._netns
            or _identity(f"/proc/{pid}/root{VAR_LIB_CNI}") in self._folders
        )

    def _end(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            opened = os.pidfd_open(pid)
            try:
                if self._has(pid):  # the PID may be reused by now; the pidfd never is
                    signal.pidfd_send_signal(opened, signal.SIGKILL)
                    gone = select.poll()
                    gone.register(opened, select.POLLIN)
                    gone.poll(_MILLISECONDS)
            finally:
                os.close(opened)


def _identity(path: str | Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 -- for each process of the machine: a Path takes as long as the call
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _described(pid: int) -> Process | None:
    """Return a process, None if it has ended meanwhile."""
    stat = process_stat(pid)
    try:
        command = Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return None
    if stat is None:
        return None
    return Process(pid, stat.started, command.replace(b"\0", b" ").decode(errors="replace").strip())
