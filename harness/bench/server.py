"""The server of our own plugins on a node, for as long as they are measured there."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.bench.process import ProcessRequest
from harness.bench.resources import process_tree, stopped_at_its_result
from harness.bench.spawner import Spawner
from launch import PLUGINS
from launch.installation import plugin_names
from launch.launcher import launcher_bytes

_IDLE_S: Final = 300
"""The time after which a server without requests ends by itself, in case the measurement cannot end it."""
_START_S: Final = 60.0
_STOP_S: Final = 60.0
_POLL_S: Final = 0.02


class ServerError(Exception):
    """The server does not answer requests."""


class SuiteServer:
    """A running server; launchers that ask it are in `bin_dir`."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path) -> None:
        """Look at a process that was started with its socket in `folder`."""
        self.pid = process.pid
        self.bin_dir = folder
        self._process = process
        self._log = folder / "server.log"

    def require_service(self, spawner: Spawner) -> None:
        """Raise ServerError if a launcher that asks the server executes the plugin itself."""
        launcher = str(self.bin_dir / next(iter(PLUGINS)))
        request = ProcessRequest(launcher, {"CNI_COMMAND": "VERSION"}, b'{"cniVersion": "1.0.0"}')
        seen = spawner.call(stopped_at_its_result, request, self.pid, _START_S)
        if seen is None or not seen.served:
            raise ServerError(f"{launcher} is not served by process {self.pid}: {self._last_words()}")

    def await_workers(self) -> None:
        """Wait until it listens and has forked workers. Raises ServerError."""
        deadline = time.monotonic() + _START_S
        while not ((self.bin_dir / "server.sock").exists() and process_tree(self.pid)[1:]):
            if self._process.poll() is not None:
                raise ServerError(f"the server (process {self.pid}) has ended: {self._last_words()}")
            if time.monotonic() > deadline:
                raise ServerError(f"the server (process {self.pid}) has no worker after {_START_S:g} s")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End it; it ends its workers."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "nothing said"


@contextmanager
def serving(spawner: Spawner, name: str) -> Iterator[SuiteServer]:
    """Start a server where a spawner is, and write launchers that ask it into /run/`name`, for the with block.

    Raises ServerError if a launcher is not served, at the begin of the block or at its end. Raises OSError.
    """
    # This path is short enough for a socket, wherever other temporary files are.
    folder = Path("/run", name)
    folder.mkdir(mode=0o755)
    try:
        socket = folder / "server.sock"
        write_launchers(folder, str(socket))
        command = [sys.executable, "-m", "launch.server", "--socket", str(socket), "--idle-exit", str(_IDLE_S)]
        with (folder / "server.log").open("wb") as log:
            process = spawner.start(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        server = SuiteServer(process, folder)
        try:
            server.await_workers()
            server.require_service(spawner)
            yield server
            server.require_service(spawner)
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def write_launchers(folder: Path, socket: str) -> None:
    """Write our plugins, and those that other distributions declare, into a folder.

    They ask the server at `socket`; none if it is empty. Raises OSError, ValueError.
    """
    content = launcher_bytes(socket=socket)
    for name in plugin_names():
        launcher = folder / name
        launcher.write_bytes(content)
        launcher.chmod(0o755)
