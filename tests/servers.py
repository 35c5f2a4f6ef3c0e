"""Servers for tests: each a process with a socket of its own."""

import itertools
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from launch import PLUGINS
from tests.cli import ROOT
from tests.nodes import HANG, until

_numbers = itertools.count()
_PROGRAM = """\
from launch.server import handoff, server
handoff.HANDOFF_SECONDS = %s
sys.exit(server.main())
"""


class Server:
    """A running server, its log, and its workers."""

    def __init__(self, process: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
        self.process = process
        self.socket = socket
        self._log = log

    @property
    def pid(self) -> int:
        """Of the server itself."""
        return self.process.pid

    def log(self) -> str:
        """Its output on stderr until now."""
        return self._log.read_text()

    def workers(self) -> set[int]:
        """Those at work and those without."""
        return children(self.pid)

    def worker_names(self) -> list[str]:
        """The workers' names in /proc/PID/comm; a worker that ends meanwhile has none."""
        names = []
        for pid in self.workers():
            with suppress(FileNotFoundError, ProcessLookupError):
                names.append(Path(f"/proc/{pid}/comm").read_text().rstrip("\n"))
        return names

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(HANG)

    def requests(self) -> int:
        """How many it was asked for, known from its log when it has ended."""
        found = re.search(r"ended after (\d+) requests", self.log())
        assert found, self.log()
        return int(found[1])


@contextmanager
def running_server(
    folder: Path,
    *options: str,
    prefix: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: str = "/",
    umask: int = 0o022,
    root: Path = ROOT,
    passed: Sequence[int] = (),
    prelude: str = "",
    handoff_seconds: float = HANG,
) -> Iterator[Server]:
    """Run a server for as long as the block lasts, its socket in `folder`; it listens when the block begins.

    `prelude` is Python that its process runs before. `handoff_seconds` is for a launcher to send its request, by
    default so long that a busy machine makes no difference.
    """
    socket, log = folder / "server.sock", folder / f"server-{next(_numbers)}.log"
    path = [str(root), *sys.path]
    program = f"import sys; sys.path[:0] = {path!r}; {prelude}\n{_PROGRAM % handoff_seconds}"
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-I", "-c", program, "--socket", str(socket), *options],
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            env=dict(env or {}),
            cwd=cwd,
            umask=umask,
            pass_fds=passed,
        )
    server = Server(process, socket, log)
    try:
        until(lambda: "listening at" in server.log() or process.poll() is not None)
        assert "listening at" in server.log(), server.log()
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(HANG)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(HANG)


def write_launchers(folder: Path, content: bytes) -> Path:
    """Make `folder` a CNI_PATH: a launcher of this content under the name of each of our plugins."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PLUGINS:
        launcher = folder / name
        launcher.write_bytes(content)
        launcher.chmod(0o755)
    return folder


def served_only(launcher: bytes) -> bytes:
    """Change a compiled launcher so that it cannot execute a plugin by itself: whoever gets an answer was served."""
    interpreter = launcher.rpartition(b"#!")[2].partition(b" ")[0]
    assert launcher.count(interpreter + b"\0") == 1
    # Of the same length, so that the launcher stays as it is otherwise.
    return launcher.replace(interpreter + b"\0", b"/nonexistent".ljust(len(interpreter), b"-") + b"\0")


def open_files(pid: int) -> list[Path]:
    """The targets of a process's descriptors, but of those that it closes meanwhile."""
    found = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(path.readlink())
    return found


def children(pid: int) -> set[int]:
    """The processes whose parent is `pid`."""
    found = subprocess.run(
        ["ps", "--no-headers", "-o", "pid", "--ppid", str(pid)], stdout=subprocess.PIPE, text=True, check=False
    )
    return {int(line) for line in found.stdout.split()}
