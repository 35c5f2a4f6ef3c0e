"""The processes that are on nodes and in pods: which there are, and their end. Their names do not matter."""

import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from harness.runtime.node import VAR_LIB_CNI

__all__ = ["Process", "Region"]

_ROUNDS: Final = 10
"""Each loses against processes that start others meanwhile."""
_MILLISECONDS: Final = 1000
"""For one that was killed to be gone."""
_STARTED: Final = 19
"""Where stat has the time of the start, counted from behind the name (proc(5))."""


class Process(NamedTuple):
    """A process. `started` is in clock ticks since the machine was, and tells it from others of the same number."""

    pid: int
    started: int
    command: str

    def in_words(self) -> str:
        """Tell it as ps(1) does."""
        return f"process {self.pid}: {self.command}"


class Region:
    """Network namespaces, and folders that stand for /var/lib/cni: what is in one, or sees one there, is of the region.

    A process that a plugin starts is on the node by its view of the files, also in a network namespace of its own; one
    that has taken leave of the files is still in the node's network, or in the pod's.
    """

    def __init__(self, netns: Iterable[str], var_lib_cni: Iterable[Path]) -> None:
        """Take what is at these paths now. A namespace that is gone, or a folder, is left out."""
        self._netns = {_identity(path) for path in netns} - {None}
        self._folders = {_identity(path) for path in var_lib_cni} - {None}

    def processes(self) -> list[Process]:
        """Return those that there are, but for this one, by their numbers."""
        return [process for pid in self._pids() if (process := _described(pid)) is not None]

    def end_processes(self) -> None:
        """Kill them, and wait until they are gone."""
        for _ in range(_ROUNDS):
            pids = self._pids()
            if not pids:
                return
            for pid in pids:
                self._end(pid)

    def _pids(self) -> list[int]:
        numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        return sorted(pid for pid in numbers if pid != os.getpid() and self._has(pid))

    def _has(self, pid: int) -> bool:
        # Through the root of a process its own mounts are seen. A zombie has neither.
        return (
            _identity(f"/proc/{pid}/ns/net") in self._netns
            or _identity(f"/proc/{pid}/root{VAR_LIB_CNI}") in self._folders
        )

    def _end(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            opened = os.pidfd_open(pid)
            try:
                if self._has(pid):  # the number may be another's by now, what was opened never is
                    signal.pidfd_send_signal(opened, signal.SIGKILL)
                    gone = select.poll()
                    gone.register(opened, select.POLLIN)
                    gone.poll(_MILLISECONDS)
            finally:
                os.close(opened)


def _identity(path: str | Path) -> tuple[int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _described(pid: int) -> Process | None:
    """Return a process, None where it has ended meanwhile."""
    folder = Path("/proc", str(pid))
    try:
        stat = (folder / "stat").read_text(errors="replace")
        command = (folder / "cmdline").read_bytes()
    except OSError:
        return None
    started = int(stat.rpartition(")")[2].split()[_STARTED])
    return Process(pid, started, command.replace(b"\0", b" ").decode(errors="replace").strip())
