"""Processes known by PID and start time: signals to them, and waiting for their end."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from harness.cri.builtin.container_store import ProcessRecord

__all__ = ["kill_group", "opened", "send_signal", "wait_for_end"]

_STARTED: Final = 19
"""The field of stat with the start time, counted from behind the name (proc_pid_stat(5))."""


@contextmanager
def opened(process: ProcessRecord) -> Iterator[int | None]:
    """Yield a pidfd of the process; None if it has ended, also if another one has its PID."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor if _started(process.pid) == process.started else None
    finally:
        os.close(descriptor)


def send_signal(process: ProcessRecord, number: int) -> None:
    """Send a signal to the process, if it has not ended."""
    with opened(process) as descriptor, suppress(ProcessLookupError):
        if descriptor is not None:
            signal.pidfd_send_signal(descriptor, number)


def wait_for_end(process: ProcessRecord, timeout_s: float) -> bool:
    """Wait until the process has ended, a zombie included; tell whether it has."""
    with opened(process) as descriptor:
        if descriptor is None:
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))


def kill_group(process: ProcessRecord, timeout_s: float) -> None:
    """Kill the process with its process group, and wait until it has ended."""
    with opened(process) as descriptor, suppress(ProcessLookupError):
        if descriptor is not None:
            if os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    wait_for_end(process, timeout_s)


def _started(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat.rpartition(b")")[2].split()[_STARTED])
