"""The pause process of a sandbox, seen from the runtime: started, recognised, ended."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.containerd.processes import PAUSE, program, send_signal, wait_for_end
from harness.cri.messages import NamespaceMode, PodSandboxConfig
from harness.cri.service import RuntimeServiceError
from harness.process_stat import process_stat
from harness.runtime.pods import PauseProcess

_TIMEOUT_S: Final = 30.0


def start_pause(config: PodSandboxConfig, netns: str, hostname: str, sandbox_id: str) -> PauseProcess:
    """Start the pause process in the calling thread's network namespace, or in `netns`. Raises RuntimeServiceError."""
    kinds = ["ipc"] * (config.ipc == NamespaceMode.POD)
    kinds += ["uts"] * (config.network == NamespaceMode.POD)
    kinds += ["pid"] * (config.pid == NamespaceMode.POD)
    settings = [f"{name}={value}" for name, value in config.sysctls.items()]
    command = program(PAUSE, netns, hostname, ",".join(kinds), sandbox_id, *settings)
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd="/")
    except subprocess.TimeoutExpired:
        raise RuntimeServiceError(f"the pause process did not start within {_TIMEOUT_S:g} s") from None
    if ended.returncode:
        raise RuntimeServiceError(f"failed to start the pause process: {ended.stderr.strip().splitlines()[-1:]}")
    pid = int(ended.stdout)
    stat = process_stat(pid)
    if stat is None or stat.has_ended:
        raise RuntimeServiceError("the pause process ended at once")
    return PauseProcess(pid=pid, started=stat.started)


def end_pause(pause: PauseProcess) -> None:
    """Kill the process with SIGKILL, and wait for its end. An ended one is fine. Raises OSError."""
    send_signal(pause, signal.SIGKILL)
    wait_for_end(pause, _TIMEOUT_S)


def end_unrecorded_pauses(sandbox_id: str) -> None:
    """Kill pause processes of a sandbox that are not on record: the runtime was killed while it started one.

    Raises OSError.
    """
    while pauses := list(_pauses_of(sandbox_id)):  # one that is found may be about to fork
        for pause in pauses:
            end_pause(pause)


def _pauses_of(sandbox_id: str) -> Iterator[PauseProcess]:
    name, identifier = PAUSE.rpartition(".")[2].encode(), sandbox_id.encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            words = path.read_bytes().split(b"\0")
            if name in words and identifier in words:
                pid = int(path.parent.name)
                stat = process_stat(pid)
                if stat is not None and not stat.has_ended:
                    yield PauseProcess(pid=pid, started=stat.started)
