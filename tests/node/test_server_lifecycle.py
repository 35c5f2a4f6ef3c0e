"""The server's beginning and end: one at a path, none that outlives its installation."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from launch.installation import modules
from tests.cli import ROOT
from tests.installations import build_id_of, copied, evaluated
from tests.nodes import HANG, until, with_enough_time
from tests.server_client import client, encode_request, request_for
from tests.servers import Server, open_files, running_server, write_launchers

VERSION = {"CNI_COMMAND": "VERSION"}

pytestmark = pytest.mark.sudo


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_server(tmp_path) as running:
        yield running


def is_served(server: Server) -> bool:
    with client(server.socket) as launcher:
        return launcher.call(request_for("noop", VERSION)) == 0


def refused(folder: Path, *options: str) -> str:
    """The message of a server that does not start."""
    run = subprocess.run(
        [sys.executable, "-m", "launch.server", "--socket", folder / "server.sock", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )

    assert run.returncode == 1
    return run.stderr


def test_second_server_at_a_path_is_refused_and_the_first_stays(server: Server, tmp_path: Path) -> None:
    assert "another server listens there" in refused(tmp_path)

    assert is_served(server)


def test_socket_that_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    with running_server(tmp_path) as first:
        first.stop(signal.SIGKILL)
        assert first.socket.exists()

        with running_server(tmp_path) as second:
            assert is_served(second)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_socket_that_systemd_holds_is_left_to_it(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as held:
        held.bind(str(tmp_path / "server.sock"))
        held.listen(0)
        for _ in range(3):  # the last time the queue is full
            assert "somebody else" in refused(tmp_path)


def test_regular_file_at_the_socket_path_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    path.write_text("somebody's")

    assert "is no socket" in refused(tmp_path)

    assert path.read_text() == "somebody's"


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert str(tmp_path / "file") in refused(tmp_path / "file")


def test_socket_goes_with_the_server(server: Server) -> None:
    assert server.stop() == 0

    assert not server.socket.exists()


def test_socket_of_another_program_at_the_path_is_kept(server: Server) -> None:
    server.socket.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.bind(str(server.socket))

        assert server.stop() == 0

        assert server.socket.exists()


def test_path_is_free_while_the_last_executions_end(server: Server, tmp_path: Path) -> None:
    with client(server.socket, None) as held:
        assert held.begin()
        server.process.terminate()
        until(lambda: "draining, 1 at work" in server.log())

        with running_server(tmp_path) as successor:
            assert is_served(successor)
            assert server.process.poll() is None
            assert held.finish() == 0
            assert server.process.wait(HANG) == 0

            assert is_served(successor)


def test_draining_server_refuses_queued_launchers_at_once(tmp_path: Path) -> None:
    with (
        running_server(tmp_path, "--workers", "1", "--most", "1") as server,
        client(server.socket, None) as held,
        client(server.socket) as queued,
    ):
        assert held.begin()
        queued.ask(request_for("noop", VERSION))

        server.process.terminate()

        assert queued.is_refused()
        assert "1 at work" in server.log()
        assert held.finish() == 0


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_server(server: Server, number: signal.Signals) -> None:
    assert server.stop(number) == 0

    assert f"draining, 0 at work: {number.name}" in server.log()


def test_ctrl_c_in_its_terminal_does_not_reach_the_workers(server: Server) -> None:
    def groups() -> set[int]:
        return {os.getpgid(pid) for pid in (server.pid, *server.workers())}

    assert until(lambda: len(groups()) == 5)


def test_idle_server_ends(tmp_path: Path) -> None:
    with running_server(tmp_path, "--idle-exit", "0.2") as server:
        assert server.process.wait(HANG) == 0

        assert "no request in 0.2 s" in server.log()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_server_with_work_is_not_idle(tmp_path: Path) -> None:
    def work(idle: float) -> bool:
        with running_server(tmp_path, "--idle-exit", str(idle)) as server:
            try:
                with client(server.socket, None) as held:
                    if not held.begin():
                        return False
                    with pytest.raises(subprocess.TimeoutExpired):
                        server.process.wait(3 * idle)
                    assert held.finish() == 0
            except OSError:  # it was idle before it was asked
                return False

            return server.process.wait(HANG) == 0

    assert with_enough_time(work)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_workers_that_are_killed_are_replaced_after_a_pause(server: Server) -> None:
    killed = until(server.workers)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)

    until(lambda: len(server.workers()) == 4 and not server.workers() & killed)

    assert is_served(server)
    assert "ended without work by signal 9; the next one in 0.1 s" in server.log()


def test_calls_beyond_the_limit_of_workers_wait(tmp_path: Path) -> None:
    with (
        running_server(tmp_path, "--workers", "2", "--most", "2") as server,
        client(server.socket, None) as first,
        client(server.socket, None) as second,
        client(server.socket) as third,
    ):
        assert first.begin()
        assert second.begin()
        third.ask(request_for("noop", VERSION))
        third.connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            third.end()
        third.connection.settimeout(HANG)

        assert len(server.workers()) == 2
        assert first.finish() == 0
        assert third.end() == 0
        assert second.finish() == 0


def test_server_starts_with_closed_streams_and_inherits_no_files(tmp_path: Path) -> None:
    (tmp_path / "inherited").touch()
    command = f'exec 0<&- 1>&- 7<{tmp_path}/inherited 8</proc/self/ns/uts; trap "" HUP USR1; umask 0777; exec "$@"'

    with running_server(tmp_path, prefix=["sh", "-c", command, "sh"]) as server:
        assert is_served(server)
        until(lambda: len(server.workers()) == 4)
        for pid in (server.pid, *server.workers()):
            assert not {tmp_path / "inherited", Path("/proc/self/ns/uts").readlink()} & set(open_files(pid))


# --- systemd

# As systemd does it (sd_listen_fds(3)).
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2])
os.execv(sys.argv[3], sys.argv[3:])
"""


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket that systemd holds."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as held:
        held.bind(str(tmp_path / "systemd.sock"))
        held.listen(100)
        yield held


def activated(folder: Path, passed: socket.socket, number: int = 1) -> AbstractContextManager[Server]:
    prefix = [sys.executable, "-I", "-c", ACTIVATE, str(passed.fileno()), str(number)]
    return running_server(folder, prefix=prefix, passed=[passed.fileno()])


def test_socket_from_systemd_is_used_and_left_to_it(tmp_path: Path, listening: socket.socket) -> None:
    path = Path(listening.getsockname())
    for _ in range(2):
        with client(path) as waiting, activated(tmp_path, listening) as server:
            assert waiting.call(request_for("noop", VERSION)) == 0
            assert server.stop() == 0

            assert f"listening at {path}" in server.log()
            assert not server.socket.exists()
    assert path.exists()


def test_launcher_that_comes_between_two_servers_waits(tmp_path: Path, listening: socket.socket) -> None:
    with activated(tmp_path, listening) as first:
        first.stop()
    with client(Path(listening.getsockname())) as waiting:
        waiting.send(encode_request(request_for("noop", VERSION)), waiting.files())
        with activated(tmp_path, listening):
            assert waiting.end() == 0


def test_server_under_systemd_makes_room_before_its_last_executions_end(
    tmp_path: Path, listening: socket.socket
) -> None:
    path = Path(listening.getsockname())
    with client(path, None) as held:
        # Sent before a worker accepts the connection, as launchers do: then the kernel adds the sender's credentials.
        held.ask(request_for("noop", {"CNI_COMMAND": "STATUS"}))
        with activated(tmp_path, listening) as first:
            assert held.is_begun()
            assert first.stop() == 0
            assert "; 1 still at work" in first.log()
        with activated(tmp_path, listening), client(path) as launcher:
            assert launcher.call(request_for("noop", VERSION)) == 0

        assert held.finish() == 0


def test_unsuitable_sockets_from_systemd_are_refused(tmp_path: Path, listening: socket.socket) -> None:
    with pytest.raises(AssertionError, match="2 sockets from systemd"), activated(tmp_path, listening, 2):
        pass
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other,
        pytest.raises(AssertionError, match="is no listening AF_UNIX socket"),
        activated(tmp_path, other),
    ):
        pass


# --- installations


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """A copy of this installation, to be changed."""
    return copied(tmp_path / "installation")


def launchers_of(root: Path, folder: Path, path: Path) -> Path:
    """Launchers of the installation at `root` as it is now, which ask the server at `path`."""
    return write_launchers(folder, evaluated(root, f"launcher_bytes(socket={str(path)!r}, timeout={HANG})"))


def about(bin_dir: Path) -> str:
    run = subprocess.run([bin_dir / "noop"], env={}, capture_output=True, text=True, check=True)
    return run.stderr


def upgrade(installation: Path) -> None:
    """As an upgrade does: a file is another one, by rename."""
    noop = installation / "plugins" / "noop.py"
    new = noop.with_suffix(".new")
    new.write_text(noop.read_text() + "\nPLUGIN.version = '9.8.7'\n")
    new.rename(noop)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_server_that_was_upgraded_drains_and_its_launchers_run_the_new_code(installation: Path, tmp_path: Path) -> None:
    with running_server(tmp_path, root=installation) as server:
        bin_dir = launchers_of(installation, tmp_path / "bin", server.socket)
        assert "9.8.7" not in about(bin_dir)
        with client(server.socket, None) as held:
            assert held.begin(build_id=build_id_of(installation))

            upgrade(installation)

            until(lambda: "9.8.7" in about(bin_dir))
            assert "at work: the installation has changed" in server.log()
            assert held.finish() == 0, (held.stdout, held.stderr, server.log())
        assert server.process.wait(HANG) == 0


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_server_does_not_work_for_launchers_of_another_build(installation: Path, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        upgrade(installation)
        newer = launchers_of(installation, tmp_path / "newer", server.socket)

        assert "9.8.7" in about(newer)
        assert "a launcher of another installation" in server.log()


def test_upgraded_server_serves_upgraded_launchers(installation: Path, tmp_path: Path) -> None:
    upgrade(installation)
    with running_server(tmp_path, root=installation) as server:
        newer = launchers_of(installation, tmp_path / "newer", server.socket)

        assert "9.8.7" in about(newer)
        server.stop()
        assert server.requests() == 1


def test_server_drains_if_its_installation_is_removed(installation: Path, tmp_path: Path) -> None:
    with running_server(tmp_path, root=installation) as server:
        shutil.rmtree(installation / "ipam")

        def is_over() -> bool:
            try:
                with client(server.socket) as launcher:
                    launcher.ask(request_for("noop", VERSION))
            except OSError:
                return server.process.poll() is not None
            return False

        until(is_over)
        assert "the installation has changed" in server.log()


def test_build_id_depends_on_code_and_not_on_file_times(installation: Path) -> None:
    before = build_id_of(installation)
    os.utime(installation / "plugins" / "noop.py", (0, 0))
    assert build_id_of(installation) == before

    upgrade(installation)

    assert build_id_of(installation) != before


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("source", ["launch/installation.py", "launch/server/__init__.py", "launch/server/worker.py"])
def test_build_id_and_stamp_are_of_all_sources(installation: Path, source: str) -> None:
    file = installation / source
    build_id, stamp = build_id_of(installation), evaluated(installation, "repr(stamp()).encode()")

    file.write_text(file.read_text() + "\n")

    assert build_id_of(installation) != build_id
    assert evaluated(installation, "repr(stamp()).encode()") != stamp


def test_modules_are_all_that_a_plugins_process_or_a_worker_may_import_and_no_program() -> None:
    found = set(modules())

    assert {
        "skel.dispatch",
        "launch.server.worker",
        "firewall.owner",
        "netlink.rtnl",
        "ipam.host_local",
        "plugins.loopback",
    } <= found
    assert not [module for module in found if "__" in module]
