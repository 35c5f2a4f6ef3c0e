"""The memory of a plugin whose result is complete, and whether a server's process has made the result."""

import os
import time
from dataclasses import dataclass
from typing import Final

from harness.bench.process import Process, Request
from harness.bench.resources import has_connection, is_writing, peak_rss, process_tree, pss

__all__ = ["Stopped", "stopped_at_its_result"]

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


def stopped_at_its_result(request: Request, server: int | None, timeout: float) -> Stopped | None:
    """Run a plugin, and look at it and at the server with the PID `server` when the result is complete.

    The pipe of standard output is full until then, so the plugin waits. None if it ended without waiting. Raises
    PluginFailedError, OSError.
    """
    process = Process(request)
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
                served = server is not None and any(map(has_connection, writers))
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
