"""What a plugin uses in the middle of its work, and who does that work: the process itself, or a server's."""

import os
import time
from dataclasses import dataclass
from typing import Final

from harness.bench.process import Process, Request
from harness.bench.resources import is_writing, peak_rss, process_tree, pss

__all__ = ["Stopped", "stopped_at_its_result"]

_POLL_S: Final = 0.002


@dataclass(frozen=True)
class Stopped:
    """A plugin that was about to write its result; memory in bytes.

    `served` tells that a process of the server was about to write it, `server_pss` is the proportional set size of all
    of them.
    """

    served: bool
    peak_rss: int
    server_pss: int


def stopped_at_its_result(request: Request, server: int | None, timeout: float) -> Stopped | None:
    """Look at a plugin, and at the server with the PID `server`, when the result is made; then bring it to its end.

    There is no room for what the plugin writes to its standard output until that has been looked at. None where it
    cannot be told. Raises PluginFailedError, OSError.
    """
    process = Process(request)
    deadline = time.perf_counter() + timeout
    try:
        process.fill_stdout()
        process.spawn()
        seen = None
        while seen is None and not _ended(process.pid) and time.perf_counter() < deadline:
            servants = process_tree(server) if server is not None else []
            served = any(map(is_writing, servants))
            if served or any(map(is_writing, process_tree(process.pid))):
                seen = Stopped(served, peak_rss(process.pid), pss(servants))
            else:
                time.sleep(_POLL_S)
        while process.read():
            pass
        process.wait(deadline)
    finally:
        process.close()
    return seen


def _ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
