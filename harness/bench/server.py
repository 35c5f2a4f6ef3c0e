"""The fork server of our own plugins, for as long as they are measured."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.bench.process import Request, run_one
from harness.bench.resources import cpu_seconds, process_tree, pss
from launch.installation import ROOT

__all__ = ["Server", "ServerError", "serving"]

_IDLE_S: Final = 300
"""Of a server without requests, until it ends by itself: should nobody be left to end it."""
_START_S: Final = 60.0
_STOP_S: Final = 60.0
_POLL_S: Final = 0.02
_QUIET_READINGS: Final = 3


class ServerError(Exception):
    """The server does not serve."""


class Server:
    """A running server, its workers included."""

    def __init__(self, pid: int) -> None:
        """Look at the process `pid`, which forks the workers and waits for them."""
        self.pid = pid

    def require_running(self) -> None:
        """Raise ServerError where it has ended, as it does when the code that it has loaded has changed."""
        if not process_tree(self.pid)[1:]:
            raise ServerError(f"the server (process {self.pid}) has ended")

    def cpu_seconds(self) -> float:
        """Return the CPU time up to now, once what the last request made the server do is done."""
        readings = [-1.0]
        while readings[-_QUIET_READINGS:] != [readings[-1]] * _QUIET_READINGS:
            if len(readings) * _POLL_S > _STOP_S:
                raise ServerError(f"the server (process {self.pid}) does not come to rest")
            readings.append(cpu_seconds(process_tree(self.pid)))
            time.sleep(_POLL_S)
        return readings[-1]

    def pss(self) -> int:
        """Return the proportional set size of all its processes, in bytes."""
        return pss(process_tree(self.pid))


@contextmanager
def serving(socket_path: Path, launcher: Path) -> Iterator[Server]:
    """Start a server on a socket, for the with block; `launcher` is one of those that are to ask it.

    Raises ServerError where the launcher is not served, also when the block has ended: by then it may have begun to do
    its work itself. Raises OSError.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "launch.server", "--socket", str(socket_path), "--idle-exit", str(_IDLE_S)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # Ctrl-C is for us, who end it when it has nothing to do any more.
        process_group=0,
    ) as process:
        try:
            server = Server(process.pid)
            _await(lambda: _listens(socket_path) or process.poll() is not None, f"no server on {socket_path}")
            if process.poll() is not None:
                raise ServerError(f"the server ended at its start, with exit code {process.returncode}")
            _require_service(server, launcher)
            yield server
            _require_service(server, launcher)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _require_service(server: Server, launcher: Path) -> None:
    """Have a launcher served: the worker that does it dies of it, and another takes its place."""
    before = set(process_tree(server.pid))
    request = Request(str(launcher), {"CNI_COMMAND": "VERSION"}, b'{"cniVersion": "1.0.0"}')
    run_one(request, timeout=_START_S)
    _await(lambda: set(process_tree(server.pid)) - before, f"{launcher} is not served by process {server.pid}")


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(os.fspath(path)) == 0


def _await(condition: Callable[[], object], otherwise: str) -> None:
    deadline = time.monotonic() + _START_S
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(otherwise)
        time.sleep(_POLL_S)
