"""Executions that end before their time: whoever is killed, the node is clean afterwards and nobody waits for ever."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from launch.launcher import launcher_bytes, launcher_text
from tests.attachments import Network, bridge_config
from tests.nodes import HANG, Node, until, with_enough_time
from tests.server_client import client
from tests.servers import Server, children, running_server, write_launchers

# Reserves by host-local, and does not say so before somebody writes to its FIFO; with a file `slowly`,
# does not release before that either.
SLOW = """#!/bin/sh
hold() {{
    echo $$ >{folder}/$1.new && mv {folder}/$1.new {folder}/$1
    read -r _ <{folder}/fifo
}}
case $CNI_COMMAND in
ADD)
    reserved=$({bin_dir}/host-local) || exit 1
    hold reserved
    echo "$reserved"
    ;;
*)
    [ ! -e {folder}/slowly ] || hold releasing
    exec {bin_dir}/host-local
    ;;
esac
"""

# State that an execution leaves on purpose: see tests.node.test_bridge_undo.
KEPT = ["files/*/last_reserved_ip*"]


def direct(**_: object) -> bytes:
    """The launcher that asks no server."""
    return launcher_bytes(socket="")


EACH = pytest.mark.parametrize(
    "place", [launcher_bytes, launcher_text, direct], ids=["compiled", "python", "direct"], indirect=True
)
"""Without it, the first two: then there is a server's worker."""


class Place:
    """A node with a network on it whose IPAM plugin can be held up, and a server."""

    def __init__(self, node: Node, server: Server, folder: Path, content: Callable[..., bytes]) -> None:
        self.node = node
        self.server = server
        self.is_served = content is not direct
        self.bin_dir = write_launchers(folder / "launchers", content(socket=str(server.socket), timeout=HANG))
        self.direct_bin_dir = write_launchers(folder / "direct", launcher_bytes(socket=""))
        self.folder = folder  # not the node's: a FIFO is nothing to compare
        os.mkfifo(self.folder / "fifo")
        slow = node.bin_dir / "slow"
        slow.write_text(SLOW.format(bin_dir=self.direct_bin_dir, folder=folder))
        slow.chmod(0o755)
        ipam = {"type": "slow", "ranges": [[{"subnet": "10.88.0.0/16"}], [{"subnet": "fd00:88::/64"}]]}
        self.config = bridge_config(ipam=ipam, ipMasq=True)
        quick = bridge_config(ipMasq=True, ipam={**ipam, "type": "host-local"})
        # The bridge, and what comes with the first pod of all, are there before.
        first = Network(node, self.direct_bin_dir, quick)
        first.add("first")
        first.succeed("DEL", "first")
        node.pod_namespace("one")
        self.before = node.state()

    def environ(self, verb: str) -> dict[str, str]:
        return {
            **self.node.environment,
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": "id-one",
            "CNI_IFNAME": "eth0",
            "CNI_NETNS": f"{self.node.path}-one",
            "CNI_PATH": f"{self.node.bin_dir}:{self.direct_bin_dir}",
        }

    def start(self) -> subprocess.Popen[bytes]:
        """Start an ADD."""
        launcher = subprocess.Popen(
            self.node.command([self.bin_dir / "bridge"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environ("ADD"),
        )
        assert launcher.stdin is not None
        launcher.stdin.write(json.dumps(self.config).encode())
        launcher.stdin.close()
        launcher.stdin = None
        return launcher

    def start_add(self) -> tuple[subprocess.Popen[bytes], int]:
        """Start an ADD; return its launcher and what executes it when the IPAM plugin is held up."""
        launcher = self.start()
        until((self.folder / "reserved").exists)
        worker = self.worker()

        assert worker is not None
        assert worker == launcher.pid or self.is_served
        assert worker in children(self.server.pid) or not self.is_served, self.server.log()
        return launcher, worker

    def delegate(self) -> int:
        """The process of the IPAM plugin that is held up in its ADD."""
        return int((self.folder / "reserved").read_text())

    def worker(self) -> int | None:
        """The process that executes the IPAM plugin that is held up; None if this has ended meanwhile."""
        try:
            status = Path(f"/proc/{self.delegate()}/status").read_text()
        except FileNotFoundError:
            return None
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid"))

    def let_go(self) -> bool:
        """Let the held IPAM plugin go on; tell whether there was one."""
        try:
            fifo = os.open(self.folder / "fifo", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # ENXIO: nobody reads
            return False
        os.write(fifo, b"\n")
        os.close(fifo)
        return True

    def delete(self, bin_dir: Path) -> None:
        """Execute DEL, which must succeed."""
        ran = self.node.run([bin_dir / "bridge"], env=self.environ("DEL"), stdin=json.dumps(self.config))

        assert (ran.returncode, ran.stdout) == (0, "")

    def assert_clean(self, within: float = 0.0) -> None:
        self.node.assert_same_state(self.before, ignore=KEPT, within=within)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "server").mkdir()
    with running_server(tmp_path / "server") as running:
        yield running


@pytest.fixture(params=[launcher_bytes, launcher_text], ids=["compiled", "python"])
def place(request: pytest.FixtureRequest, node: Node, server: Server, tmp_path: Path) -> Iterator[Place]:
    made = Place(node, server, tmp_path, request.param)
    yield made
    made.let_go()


def is_full(pipe: IO[bytes]) -> bool:
    waiting = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
    return waiting == fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)


def answered(launcher: subprocess.Popen[bytes]) -> tuple[int, Any]:
    stdout, _ = launcher.communicate(timeout=HANG)
    return launcher.returncode, json.loads(stdout) if stdout else None


def test_killed_worker_is_an_error_and_del_cleans_up(place: Place) -> None:
    launcher, worker = place.start_add()

    os.kill(worker, signal.SIGKILL)

    code, error = answered(launcher)
    assert code == 1
    assert error["code"] == 999
    assert "the server's worker died" in error["msg"]
    with pytest.raises(AssertionError, match="is not as it was"):
        place.assert_clean()
    place.delete(place.direct_bin_dir)
    place.assert_clean()


def test_killed_worker_has_a_successor_that_serves_the_del(place: Place) -> None:
    launcher, worker = place.start_add()
    os.kill(worker, signal.SIGKILL)
    answered(launcher)

    place.delete(place.bin_dir)

    place.assert_clean()
    assert place.server.stop() == 0
    assert place.server.requests() == 2
    assert f"worker {worker} was ended by signal 9" in place.server.log()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_killed_server_takes_no_execution_along(place: Place) -> None:
    launcher, worker = place.start_add()

    place.server.stop(signal.SIGKILL)
    until(place.let_go)

    code, result = answered(launcher)
    assert (code, len(result["ips"])) == (0, 2)
    place.delete(place.bin_dir)  # by itself: there is nobody to ask any more
    place.assert_clean()
    until(lambda: not Path(f"/proc/{worker}").exists())


def test_killed_server_takes_its_workers_without_work_along(place: Place) -> None:
    until(lambda: len(place.server.workers()) == 4)
    workers = place.server.workers()

    place.server.stop(signal.SIGKILL)

    until(lambda: not [pid for pid in workers if Path(f"/proc/{pid}").exists()])


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_server_and_worker_killed_together(place: Place) -> None:
    launcher, worker = place.start_add()

    place.server.stop(signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)

    assert answered(launcher)[0] == 1
    place.delete(place.bin_dir)
    place.assert_clean()


@pytest.mark.mostly_slow(4, "each signal and launcher; a part is in make test")
@EACH
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_launcher_that_a_signal_ends_has_its_add_undone_first(place: Place, number: signal.Signals) -> None:
    """So that nothing is undone any more when somebody executes DEL, and ADD again."""
    launcher, _ = place.start_add()
    (place.folder / "slowly").touch()

    os.kill(launcher.pid, number)

    until((place.folder / "releasing").exists)
    assert launcher.poll() is None
    until(place.let_go)
    code, error = answered(launcher)
    assert (code, error) == (-number, {"cniVersion": "1.1.0", "code": 999, "msg": f"ended by signal {int(number)}"})
    place.assert_clean()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_launcher_that_a_signal_ends_waits_for_a_dead_worker_no_longer(place: Place) -> None:
    launcher, worker = place.start_add()
    (place.folder / "slowly").touch()
    launcher.terminate()
    until((place.folder / "releasing").exists)

    os.kill(worker, signal.SIGKILL)

    assert answered(launcher) == (-signal.SIGTERM, None)
    (place.folder / "slowly").unlink()
    until(place.let_go)
    place.delete(place.direct_bin_dir)
    place.assert_clean()


@pytest.mark.mostly_slow(3, "each launcher; one is in make test")
@EACH
def test_killed_launcher_has_its_add_stopped_and_nothing_undone(place: Place) -> None:
    """As a killed process does: DEL is the runtime's, and nobody undoes a later attachment."""
    launcher, worker = place.start_add()
    delegate, held = place.delegate(), place.node.state()

    os.kill(launcher.pid, signal.SIGKILL)

    assert answered(launcher) == (-signal.SIGKILL, None)
    until(lambda: not Path(f"/proc/{worker}").exists())
    assert Path(f"/proc/{delegate}").exists()
    place.node.assert_same_state(held)
    place.delete(place.direct_bin_dir)
    place.assert_clean()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_launcher_that_is_killed_while_its_add_is_undone_stops_that(place: Place) -> None:
    launcher, worker = place.start_add()
    (place.folder / "slowly").touch()
    launcher.terminate()
    until((place.folder / "releasing").exists)

    launcher.kill()

    assert answered(launcher) == (-signal.SIGKILL, None)
    until(lambda: not Path(f"/proc/{worker}").exists())
    (place.folder / "slowly").unlink()
    until(place.let_go)
    place.delete(place.direct_bin_dir)
    place.assert_clean()


class Answer(NamedTuple):
    """An execution that has come to its end, but that nobody has read the answer of."""

    launcher: subprocess.Popen[bytes]
    stdout: IO[bytes]


def start_long_answer(server: Server, tmp_path: Path, content: Callable[..., bytes]) -> Answer:
    """Start an execution whose answer is longer than a pipe, and wait until the pipe is full."""
    bin_dir = write_launchers(tmp_path / "launchers", content(socket=str(server.socket), timeout=HANG))
    debug = tmp_path / "debug"
    debug.write_text(json.dumps({"ReportResult": '{"cniVersion": "1.1.0", "ips": []' + " " * (1 << 20) + "}"}))
    environ = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "id-one",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": "/run/netns/none",
        "CNI_PATH": str(bin_dir),
        "CNI_ARGS": f"DEBUG={debug}",
    }
    config = tmp_path / "config"
    config.write_text(json.dumps({"cniVersion": "1.1.0", "name": "large", "type": "noop"}))
    with config.open() as stdin:
        launcher = subprocess.Popen([bin_dir / "noop"], env=environ, stdin=stdin, stdout=subprocess.PIPE)
    pipe = launcher.stdout
    assert pipe is not None
    until(lambda: is_full(pipe))
    return Answer(launcher, pipe)


@pytest.mark.mostly_slow(4, "each signal and launcher; a part is in make test")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("content", [launcher_bytes, launcher_text, direct], ids=["compiled", "python", "direct"])
def test_add_that_a_signal_finds_at_its_end_succeeds_with_its_whole_result(
    server: Server, tmp_path: Path, content: Callable[..., bytes], number: signal.Signals
) -> None:
    launcher, _ = start_long_answer(server, tmp_path, content)

    for _ in range(2):
        os.kill(launcher.pid, number)

    code, result = answered(launcher)
    assert (code, result) == (0, {"cniVersion": "1.1.0", "ips": []})


@pytest.mark.parametrize("content", [launcher_bytes, launcher_text], ids=["compiled", "python"])
def test_worker_that_is_killed_while_it_answers_leaves_no_second_document(
    server: Server, tmp_path: Path, content: Callable[..., bytes]
) -> None:
    launcher, _ = start_long_answer(server, tmp_path, content)
    (worker,) = [pid for pid in server.workers() if Path(f"/proc/{pid}/comm").read_text() == "noop\n"]

    os.kill(worker, signal.SIGKILL)

    stdout, _ = launcher.communicate(timeout=HANG)
    assert launcher.returncode == 1
    assert stdout.startswith(b'{"cniVersion": "1.1.0", "ips": []  ')
    assert stdout.rstrip(b" ").endswith(b"[]")


@pytest.mark.mostly_slow(3, "each signal and launcher; a part is in make test")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_busy_worker_ignores_signals_to_itself(place: Place, number: signal.Signals) -> None:
    launcher, worker = place.start_add()

    os.kill(worker, number)

    until(place.let_go)
    code, result = answered(launcher)
    assert (code, len(result["ips"])) == (0, 2)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_sigterm_to_server_and_workers_lets_the_add_finish(place: Place) -> None:
    """As by a service manager that sends its signal to each process of a control group."""
    launcher, worker = place.start_add()
    until(lambda: len(place.server.workers()) == 4)

    for pid in (*place.server.workers(), place.server.pid):
        os.kill(pid, signal.SIGTERM)

    until(lambda: place.server.workers() == {worker})
    until(place.let_go)
    code, result = answered(launcher)
    assert (code, len(result["ips"])) == (0, 2)
    assert place.server.process.wait(HANG) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_waiting_worker_ignores_signals_to_itself(tmp_path: Path, number: signal.Signals) -> None:
    """Or a server that is told to end would lose the calls that it has just accepted."""
    with running_server(tmp_path, "--workers", "1", "--most", "1") as server, client(server.socket, None) as launcher:
        assert launcher.begin()
        (worker,) = server.workers()

        os.kill(worker, number)

        assert launcher.finish() == 0


def test_execution_that_hangs_is_ended_and_undone(make_node: Callable[[], Node], tmp_path: Path) -> None:
    def run(limit: float) -> bool:
        folder = tmp_path / str(limit)
        folder.mkdir()
        with running_server(folder, "--limit", str(int(limit))) as server:
            place = Place(make_node(), server, folder, launcher_bytes)
            launcher = place.start()
            until(lambda: (folder / "reserved").exists() or launcher.poll() is not None)
            worker = place.worker() if (folder / "reserved").exists() else None
            at_work = server.workers()

            code, error = answered(launcher)

            if worker not in at_work:
                return False
            assert (code, error["code"]) == (1, 999)
            assert "took too long" in error["msg"]
            until(lambda: not Path(f"/proc/{worker}").exists())
            place.assert_clean(within=HANG)
        return True

    assert with_enough_time(run, first=1.0)


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_server_finishes_running_calls_after_sigterm(place: Place) -> None:
    launcher, worker = place.start_add()
    # The one at work and those that are left: more are forked when it has ended.
    until(lambda: len(place.server.workers()) == 4)

    place.server.process.terminate()

    until(lambda: not place.server.socket.exists())
    until(lambda: place.server.workers() == {worker})
    until(place.let_go)
    code, result = answered(launcher)
    assert (code, len(result["ips"])) == (0, 2)
    assert place.server.process.wait(HANG) == 0
    place.delete(place.bin_dir)
    place.assert_clean()


def test_server_ends_at_once_after_a_second_sigterm(place: Place) -> None:
    launcher, _ = place.start_add()

    place.server.process.terminate()
    until(lambda: "draining" in place.server.log())
    place.server.process.terminate()

    assert place.server.process.wait(HANG) == 0
    until(place.let_go)
    code, result = answered(launcher)
    assert (code, len(result["ips"])) == (0, 2)
