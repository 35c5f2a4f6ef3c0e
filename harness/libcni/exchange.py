"""The exchange with one running plugin: writing its input, reading its output and awaiting its end, in parallel."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from typing import IO

_CHUNK = 1 << 16
FLOOD = 64 << 20
"""Bytes of output that no plugin needs; a plugin that writes more is killed before it uses up the node's memory."""
_TICK_S = 0.025
"""Seconds between calls of `tick`: a person sees no delay, and the processor has nothing to do meanwhile."""


class Exchange:
    """Writes the input of a process, the leader of a process group, and reads its output.

    `timeout` limits the process, `linger` the wait for its output after its end; both are in seconds. `finish` sets
    the other attributes. `tick` is called about every 25 ms.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdin: bytes,
        *,
        timeout: float,
        linger: float,
        tick: Callable[[], object] | None = None,
    ) -> None:
        self._tick = tick
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.exit_code = 0
        self.timed_out = False
        self.flooded = False
        self.output_held = False
        self._process = process
        self._unwritten = memoryview(stdin)
        self._deadline = time.monotonic() + timeout
        self._linger = linger
        self._running = True
        self._outputs = 0
        self._selector = selectors.DefaultSelector()

    def finish(self) -> None:
        """Exchange until the process and its output have ended, or the time is up; then release the process."""
        # It is reaped at the end only: until then its process group ID cannot be reused.
        exit_fd = os.pidfd_open(self._process.pid)
        try:
            self._register(exit_fd)
            self._talk()
            self.exit_code = -signal.SIGKILL if self._running else self._process.wait()
        except BaseException:
            # Ctrl-C at a terminal does not reach other process groups.
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            raise
        finally:
            self._selector.close()
            os.close(exit_fd)
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()

    def _register(self, exit_fd: int) -> None:
        self._selector.register(exit_fd, selectors.EVENT_READ, partial(self._end, exit_fd))
        feed = self._process.stdin
        if feed is not None:
            # A pipe counts as writable long before it has room for a whole chunk; a read returns at once with less.
            os.set_blocking(feed.fileno(), False)
            self._selector.register(feed, selectors.EVENT_WRITE, partial(self._write, feed))
        for stream, said in ((self._process.stdout, self.stdout), (self._process.stderr, self.stderr)):
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, partial(self._read, stream, said))
                self._outputs += 1

    def _talk(self) -> None:
        while self._running or self._outputs:
            wait = max(0.0, self._deadline - time.monotonic())
            ready = self._selector.select(wait if self._tick is None else min(wait, _TICK_S))
            for key, _ in ready:
                key.data()
            if self._tick is not None:
                self._tick()
            if time.monotonic() >= self._deadline and (self._running or self._outputs):
                if self.timed_out or not self._running:
                    self.output_held = not self._running
                    return
                self.timed_out = True
                self._kill()

    def _end(self, exit_fd: int) -> None:
        self._running = False
        self._selector.unregister(exit_fd)
        self._deadline = min(self._deadline, time.monotonic() + self._linger)

    def _write(self, stream: IO[bytes]) -> None:
        try:
            self._unwritten = self._unwritten[os.write(stream.fileno(), self._unwritten[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # a plugin need not read its input
            self._unwritten = self._unwritten[:0]
        if not self._unwritten:
            self._selector.unregister(stream)
            stream.close()

    def _read(self, stream: IO[bytes], said: bytearray) -> None:
        chunk = os.read(stream.fileno(), _CHUNK)
        said += chunk
        if not chunk:
            self._selector.unregister(stream)
            self._outputs -= 1
        elif len(said) > FLOOD and not self.flooded:
            self.flooded = True
            self._kill()

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._deadline = time.monotonic() + self._linger
