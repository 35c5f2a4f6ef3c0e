"""The pause process of a sandbox, seen from the runtime: started, recognised, ended."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.cri.messages import NamespaceMode, PodSandboxConfig
from harness.cri.service import RuntimeServiceError
from skel.decoders import integer
from skel.record import Record, field

__all__ = ["PauseProcess", "end_pause", "end_unrecorded_pauses", "is_running", "start_pause"]

_PROGRAM: Final = Path(__file__).with_name("pause.py")
_TIMEOUT_S: Final = 30.0
_STARTED: Final = 19
"""The field of /proc/PID/stat that holds the start time, counted from behind the name (proc(5))."""


class PauseProcess(Record):
    """A process; `started` is in clock ticks since boot, which tells it from a later one of the same PID."""

    pid: int = field(integer)
    started: int = field(integer)


def start_pause(config: PodSandboxConfig, netns: str, hostname: str, sandbox_id: str) -> PauseProcess:
    """Start the pause process in the calling thread's network namespace, or in `netns`. Raises RuntimeServiceError."""
    kinds = ["ipc"] * (config.ipc == NamespaceMode.POD)
    kinds += ["uts"] * (config.network == NamespaceMode.POD)
    kinds += ["pid"] * (config.pid == NamespaceMode.POD)
    # -I -S: nothing of the caller's environment or of site-packages decides what a sandbox's process imports.
    command = [sys.executable, "-I", "-S", str(_PROGRAM), netns, hostname, ",".join(kinds), sandbox_id]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd="/")
    except subprocess.TimeoutExpired:
        raise RuntimeServiceError(f"the pause process did not start within {_TIMEOUT_S:g} s") from None
    if ended.returncode:
        raise RuntimeServiceError(f"failed to start the pause process: {ended.stderr.strip().splitlines()[-1:]}")
    pid = int(ended.stdout)
    started = _start_time(pid)
    if started is None:
        raise RuntimeServiceError("the pause process ended at once")
    return PauseProcess(pid=pid, started=started)


def is_running(pause: PauseProcess) -> bool:
    """Tell whether the process is there, and is not another one with its PID."""
    return _start_time(pause.pid) == pause.started


def end_pause(pause: PauseProcess) -> None:
    """Kill the process with SIGKILL, and wait for its end. An ended one is fine. Raises OSError."""
    with suppress(ProcessLookupError):
        fd = os.pidfd_open(pause.pid)
        try:
            if is_running(pause):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                poll = select.poll()
                poll.register(fd, select.POLLIN)
                poll.poll(_TIMEOUT_S * 1000)
        finally:
            os.close(fd)


def end_unrecorded_pauses(sandbox_id: str) -> None:
    """Kill pause processes of a sandbox that are not on record: the runtime was killed while it started one.

    Raises OSError.
    """
    while pauses := list(_pauses_of(sandbox_id)):  # one that is found may be about to fork
        for pause in pauses:
            end_pause(pause)


def _pauses_of(sandbox_id: str) -> Iterator[PauseProcess]:
    program, identifier = str(_PROGRAM).encode(), sandbox_id.encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            words = path.read_bytes().split(b"\0")
            if program in words and identifier in words:
                pid = int(path.parent.name)
                started = _start_time(pid)
                if started is not None:
                    yield PauseProcess(pid=pid, started=started)


def _start_time(pid: int) -> int | None:
    """Return the start time of a process; None if it is missing or a zombie."""
    try:
        fields = Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[_STARTED])
