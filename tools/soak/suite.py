"""The plugins of a checkout as executables, and the server of that checkout."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_PLUGINS = ("bridge", "host-local")
_SECONDS = 60.0
"""For a server to listen, or to end."""


def write_launchers(folder: Path, root: Path, socket: str = "") -> Path:
    """Make `folder` a CNI_PATH with launchers of the checkout at `root`, which ask the server at `socket`, if any."""
    imports = _imports(root, "launch.launcher", "launcher_bytes")
    program = f"{imports}; sys.stdout.buffer.write(launcher_bytes(socket={socket!r}))"
    content = subprocess.run([sys.executable, "-I", "-c", program], stdout=subprocess.PIPE, check=True).stdout
    folder.mkdir(parents=True)
    for name in _PLUGINS:
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o755)
    return folder


@contextmanager
def served(folder: Path, root: Path) -> Iterator[Path]:
    """Run the server of the checkout at `root` during the block; return a CNI_PATH of launchers that ask it."""
    process = start_server(folder, root)
    try:
        yield write_launchers(folder / "served", root, str(socket_in(folder)))
    finally:
        stop_server(process)


def socket_in(folder: Path) -> Path:
    """Return the path of the socket of the server that has its files in `folder`."""
    return folder / "server.sock"


def start_server(folder: Path, root: Path) -> subprocess.Popen[bytes]:
    """Start the server of the checkout at `root` where this thread is, and return it when it listens.

    Raises TimeoutError.
    """
    socket = socket_in(folder)
    program = f"{_imports(root, 'launch.server.server', 'main')}; sys.exit(main())"
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", program, "--socket", str(socket)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={},
            cwd="/",
        )
    deadline = time.monotonic() + _SECONDS
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            stop_server(process)
            message = f"no server listens at {socket}: see {folder}/server.log"
            raise TimeoutError(message)
        time.sleep(0.01)
    return process


def stop_server(process: subprocess.Popen[bytes]) -> None:
    """End a server by SIGTERM. Raises TimeoutExpired."""
    process.send_signal(signal.SIGTERM)
    process.wait(_SECONDS)


def _imports(root: Path, module: str, name: str) -> str:
    return f"import sys; sys.path[:0] = {[str(root), *sys.path]!r}; from {module} import {name}"
