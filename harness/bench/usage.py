"""What an execution costs besides time: CPU and memory, also where a server does the work for the process."""

import os
import time
from typing import TYPE_CHECKING, Final

from harness.bench.process import Process, Request
from harness.bench.recording import CpuTime, Memory
from harness.bench.resources import is_writing, peak_rss, process_tree
from harness.bench.stand import Stand, attached_to
from harness.site import Site

if TYPE_CHECKING:
    from harness.bench.process import Ended
    from harness.bench.server import Server

__all__ = ["cpu_of", "memory_of"]

_POLL_S: Final = 0.002


def cpu_of(site: Site, stand: Stand, count: int) -> list[CpuTime]:
    """Return the CPU time of an ADD and of a DEL, from `count` of them in a row. Raises PluginFailedError, OSError."""
    server = stand.caller.suite.server
    pods = [attached_to(netns) for netns in site.pods(count)]
    network = stand.caller.network.name
    found = []
    for verb, execute in (("ADD", stand.add), ("DEL", stand.delete)):
        before = server.cpu_seconds() if server is not None else 0.0
        process = sum(_cpu(execute(pod)) for pod in pods)
        served = server.cpu_seconds() - before if server is not None else 0.0
        found.append(CpuTime(verb, network, stand.suite, process / count, served / count))
    return found


def memory_of(site: Site, stand: Stand) -> Memory | None:
    """Return the memory of an ADD by the first plugin, None where it cannot be told. Raises PluginFailedError, OSError.

    There is no room for what the plugin writes to its standard output until that has been looked at.
    """
    attached = attached_to(site.pods(1)[0])
    suite = stand.caller.suite
    request = next(stand.caller.add(attached))
    try:
        seen = stand.ground.run(_stopped_at_its_result, request, suite.server, stand.caller.timeout)
    finally:
        stand.delete(attached)
    return None if seen is None else Memory(stand.caller.network.name, suite.name, *seen)


def _cpu(executions: "list[tuple[str, Ended]]") -> float:
    return sum(ended.cpu_seconds for _, ended in executions)


def _stopped_at_its_result(request: Request, server: "Server | None", timeout: float) -> tuple[int, int] | None:
    process = Process(request)
    deadline = time.perf_counter() + timeout
    try:
        process.fill_stdout()
        process.spawn()
        seen = None
        while seen is None and not _ended(process.pid) and time.perf_counter() < deadline:
            servants = process_tree(server.pid) if server is not None else []
            if any(map(is_writing, [*process_tree(process.pid), *servants])):
                seen = peak_rss(process.pid), server.pss() if server is not None else 0
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
