"""Running a plugin and timing it as a runtime sees it, with as little of our own in the time as possible.

The clock runs from just before posix_spawn(2) until the plugin has ended and its standard output too. Pipes are made,
and the request is in the pipe of standard input, before; the process begins in the namespaces of the calling thread.
"""

import fcntl
import os
import select
import signal
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

_PIPE_SIZE = 1 << 16  # bytes that a new pipe holds (pipe(7))
_CHUNK = 1 << 16
# Python ignores these signals in its own process, and child processes would inherit that.
_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)


class PluginFailedError(Exception):
    """A plugin that ended with an error, or did not end; the message has its output."""


@dataclass(frozen=True)
class ProcessRequest:
    """A request for one execution: a path, its whole environment, its standard input, and its arguments."""

    path: str
    environ: Mapping[str, str]
    stdin: bytes
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class TimedExecution:
    """One execution: `seconds` of wall time."""

    seconds: float
    stdout: bytes


Chain = Generator[ProcessRequest, TimedExecution, None]
"""Processes one after the other, as the plugins of a list: yields requests, and gets their executions."""


class TimedProcess:
    """A process: future, running or ended. Every pipe is closed after its end."""

    def __init__(self, request: ProcessRequest) -> None:
        """Prepare everything; nothing is started yet. Raises OSError."""
        self.pid = 0
        self._request = request
        self._received = bytearray()
        self._begin = 0.0
        self._stdin, feed = os.pipe()
        self.output, self._stdout = os.pipe()
        # A file, so that nothing has to read it meanwhile.
        self._stderr = os.memfd_create("stderr")
        if len(request.stdin) > _PIPE_SIZE:
            fcntl.fcntl(feed, fcntl.F_SETPIPE_SZ, len(request.stdin))
        os.write(feed, request.stdin)
        os.close(feed)

    def spawn(self) -> None:
        """Start it. Raises OSError."""
        self._begin = time.perf_counter()
        self.pid = os.posix_spawn(
            self._request.path,
            [self._request.path, *self._request.arguments],
            self._request.environ,
            file_actions=(
                (os.POSIX_SPAWN_DUP2, self._stdin, 0),
                (os.POSIX_SPAWN_DUP2, self._stdout, 1),
                (os.POSIX_SPAWN_DUP2, self._stderr, 2),
            ),
            # A group of its own: Ctrl-C ends the measurement, not a plugin in the middle of its work.
            setpgroup=0,
            setsigdef=_DEFAULT_SIGNALS,
        )
        os.close(self._stdout)
        self._stdout = -1

    def fill_stdout(self) -> None:
        """Leave no room in the pipe of standard output: the plugin stops when it writes its result."""
        size = fcntl.fcntl(self._stdout, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)
        os.write(self._stdout, b" " * size)

    def read(self) -> bool:
        """Read output that is available; False at the end. Blocks until output or the end comes."""
        chunk = os.read(self.output, _CHUNK)
        self._received += chunk
        return bool(chunk)

    def wait(self, deadline: float) -> TimedExecution:
        """Wait for the end of the process after that of its output. Raises PluginFailedError, also past `deadline`."""
        # Most processes have ended by now. One may also close its output and go on for ever.
        exit_fd = os.pidfd_open(self.pid)
        try:
            poll = select.poll()
            poll.register(exit_fd, select.POLLIN)
            if not poll.poll(max(0.0, deadline - time.perf_counter()) * 1000):
                raise self.overdue()
        finally:
            os.close(exit_fd)
        _, status = os.waitpid(self.pid, 0)
        seconds = time.perf_counter() - self._begin
        self.pid = 0
        if status != 0:
            raise PluginFailedError(self._failure(os.waitstatus_to_exitcode(status)))
        return TimedExecution(seconds, bytes(self._received))

    def close(self) -> None:
        """Kill the process if it still runs, and close all descriptors."""
        if self.pid:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        for fd in (self._stdin, self.output, self._stdout, self._stderr):
            if fd >= 0:
                os.close(fd)
        self._stdin = self.output = self._stdout = self._stderr = -1

    def _failure(self, code: int) -> str:
        stderr = os.pread(self._stderr, _CHUNK, 0)
        text = b" ".join((bytes(self._received) + b" " + stderr).split()).decode(errors="replace")
        return f"{self._named()}: exit code {code}: {text or 'nothing said'}"

    def overdue(self) -> PluginFailedError:
        """Return the error for a process that takes too long."""
        return PluginFailedError(f"{self._named()}: still running after {time.perf_counter() - self._begin:.1f} s")

    def _named(self) -> str:
        return f"{self._request.path} {self._request.environ.get('CNI_COMMAND', '')}".strip()


def run_one(request: ProcessRequest, *, timeout: float) -> TimedExecution:
    """Run one process to its end, for at most `timeout` seconds. Raises PluginFailedError, OSError."""
    ended: list[TimedExecution] = []

    def chain() -> Chain:
        ended.append((yield request))

    run_chains([chain()], timeout=timeout)
    return ended[0]


def run_chains(chains: Sequence[Chain], *, timeout: float) -> float:
    """Run chains of processes, all chains at once; return the seconds from the first start to the last end.

    Raises PluginFailedError for the first chain that failed, once all have ended, or at once if all of them together
    take longer than `timeout` seconds; OSError.
    """
    failures: list[PluginFailedError] = []
    running: dict[int, tuple[Chain, TimedProcess]] = {}
    poll = select.poll()

    def spawn(chain: Chain, process: TimedProcess) -> None:
        running[process.output] = chain, process
        poll.register(process.output, select.POLLIN)
        process.spawn()

    with ExitStack() as closing:
        first = [(chain, _ready(next(chain), closing)) for chain in chains]
        begin = time.perf_counter()
        for chain, process in first:
            spawn(chain, process)
        while running:
            ready = poll.poll(max(0.0, begin + timeout - time.perf_counter()) * 1000)
            if not ready:
                _, process = next(iter(running.values()))
                raise (failures or [process.overdue()])[0]
            for output, _ in ready:
                chain, process = running[output]
                if process.read():
                    continue
                poll.unregister(output)
                del running[output]
                following = _following(chain, process, begin + timeout, failures)
                if following is not None:
                    spawn(chain, _ready(following, closing))
                # Its descriptor is closed last: otherwise the next process's pipe might get the same number.
                process.close()
        seconds = time.perf_counter() - begin
    if failures:
        raise failures[0]
    return seconds


def _following(
    chain: Chain, process: TimedProcess, deadline: float, failures: list[PluginFailedError]
) -> ProcessRequest | None:
    """Return the chain's next request after the end of a process; None if it has none, or the process failed."""
    try:
        return chain.send(process.wait(deadline))
    except StopIteration:
        return None
    except PluginFailedError as failure:
        failures.append(failure)
        chain.close()
        return None


def _ready(request: ProcessRequest, closing: ExitStack) -> TimedProcess:
    process = TimedProcess(request)
    closing.callback(process.close)
    return process
