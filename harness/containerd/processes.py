"""Processes of the runtime: the start of its own programs, signals to processes, and waiting for their end.

The programs are started without site-packages and without the environment's PYTHON variables. They import the standard
library, `fast_stdlib` and nothing else, to start in a moment and stay small. A running process is known by its
PID and start time.
"""

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from harness.process_stat import process_stat
from harness.runtime.pod_record import PauseProcess

SHIM: Final = "harness.containerd.shim"
HOST_PROCESS: Final = "harness.containerd.host_process"
PAUSE: Final = "harness.containerd.pause"

_ROOT: Final = Path(__file__).resolve().parents[2]


def program(module: str, *arguments: str) -> list[str]:
    """Return the command that calls `main(*arguments)` of a module. Its last words name the module in `ps`."""
    code = f"import sys; sys.path.append({str(_ROOT)!r}); from {module} import main; main(*sys.argv[2:])"
    return [sys.executable, "-I", "-S", "-c", code, module.rpartition(".")[2], *arguments]


@contextmanager
def opened(process: PauseProcess) -> Iterator[int | None]:
    """Yield a pidfd of the process; None if it has ended, also if another one has its PID."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        stat = process_stat(process.pid)
        yield descriptor if stat is not None and stat.started == process.started else None
    finally:
        os.close(descriptor)


def send_signal(process: PauseProcess, number: int) -> None:
    """Send a signal to the process, if it has not ended."""
    with opened(process) as descriptor, suppress(ProcessLookupError):
        if descriptor is not None:
            signal.pidfd_send_signal(descriptor, number)


def wait_for_end(process: PauseProcess, timeout_s: float) -> bool:
    """Wait until the process has ended, a zombie included; tell whether it has."""
    with opened(process) as descriptor:
        if descriptor is None:
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))


def kill_group(process: PauseProcess, timeout_s: float) -> None:
    """Kill the process with its process group, and wait until it has ended."""
    with opened(process) as descriptor, suppress(ProcessLookupError):
        if descriptor is not None:
            if os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    wait_for_end(process, timeout_s)
