"""Server, workers and plugins are told apart in ps and in /proc/PID/comm."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launch.launcher import compiled_launcher, launcher_bytes, launcher_text
from tests.nodes import HANG, until
from tests.servers import running_server, write_launchers

pytestmark = pytest.mark.sudo

STATUS = {"CNI_COMMAND": "STATUS", "CNI_PATH": "/nonexistent"}


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def shown(select: str, pid: int) -> set[str]:
    """The command lines that ps shows of the process (`--pid`) or of its children (`--ppid`)."""
    run = subprocess.run(["ps", "-ww", "-o", "args=", select, str(pid)], capture_output=True, text=True, check=True)
    return {line.rstrip("\0 ") for line in run.stdout.splitlines()}


@contextmanager
def waiting_for_stdin(plugin: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A plugin that has been started, and that gets its configuration when the block ends."""
    with subprocess.Popen([plugin], env=STATUS, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.communicate(b'{"cniVersion": "1.1.0", "name": "n", "type": "noop"}', timeout=HANG)


@pytest.mark.parametrize("launcher", ["compiled", "python"])
@pytest.mark.parametrize("name", ["host-local", "noop"])
def test_a_plugin_that_executes_itself_has_its_own_name(tmp_path: Path, launcher: str, name: str) -> None:
    content = compiled_launcher(socket="") if launcher == "compiled" else launcher_text(socket="")
    assert content is not None
    plugins = write_launchers(tmp_path / "bin", content)

    with waiting_for_stdin(plugins / name) as process:
        # The interpreter replaces the compiled launcher before the name is set.
        until(lambda: "python" in Path(f"/proc/{process.pid}/exe").readlink().name)
        until(lambda: comm(process.pid) == name)


def test_server_and_workers_have_names_and_a_worker_takes_its_plugins(tmp_path: Path) -> None:
    with running_server(tmp_path, "--workers", "2") as server:
        plugins = write_launchers(tmp_path / "bin", launcher_bytes(socket=str(server.socket), timeout=HANG))

        assert comm(server.pid) == "cni-serve"
        assert shown("--pid", server.pid) == {f"cni-serve: listening at {server.socket}"}
        until(lambda: server.worker_names() == ["cni-worker"] * 2)

        with waiting_for_stdin(plugins / "host-local"):
            until(lambda: "host-local" in server.worker_names())
            # Another worker may have been forked a moment ago, and has the server's command line at first.
            until(lambda: shown("--ppid", server.pid) == {"cni-worker"})
        until(lambda: set(server.worker_names()) == {"cni-worker"})
