"""As many workers as there is use for: no call keeps those of others from being served."""

import errno
import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from launch.launcher import compiled_launcher
from tests.nodes import HANG, until
from tests.server_client import client, request_for
from tests.servers import Server, open_files, running_server, served_only, write_launchers

pytestmark = pytest.mark.sudo

VERSION = {"CNI_COMMAND": "VERSION"}
LOCKED_NETWORK_SLOTS = 8
"""Slots that calls of one network may have while they wait for its lock."""


class Network:
    """Calls of host-local for one network, by launchers that cannot execute it by themselves."""

    def __init__(self, server: Server, folder: Path, name: str) -> None:
        launcher = compiled_launcher(socket=str(server.socket), timeout=HANG)
        assert launcher is not None
        self._bin_dir = write_launchers(folder / "bin", served_only(launcher))
        self._config = folder / f"{name}.json"
        self.folder = folder / "data" / name
        self.folder.mkdir(parents=True)
        ipam = {"type": "host-local", "dataDir": str(self.folder.parent), "subnet": "10.9.0.0/16"}
        self._config.write_text(json.dumps({"cniVersion": "1.1.0", "name": name, "type": "host-local", "ipam": ipam}))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Have the network's lock, which each of its calls waits for."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def start(self, container_id: str) -> "subprocess.Popen[bytes]":
        environ = {
            "CNI_COMMAND": "ADD",
            "CNI_CONTAINERID": container_id,
            "CNI_IFNAME": "eth0",
            "CNI_NETNS": "/run/netns/none",
            "CNI_PATH": str(self._bin_dir),
        }
        with self._config.open() as stdin:
            return subprocess.Popen(
                [self._bin_dir / "host-local"],
                env=environ,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

    def reserved(self) -> int:
        return len(list(self.folder.glob("10.9.*")))


def result(process: "subprocess.Popen[bytes]") -> Any:
    stdout, stderr = process.communicate(timeout=HANG)
    assert (process.returncode, stderr) == (0, b""), stdout
    return json.loads(stdout)


def queued(server: Server) -> int:
    """How many calls the server's parent keeps."""
    return len([file for file in open_files(server.pid) if str(file).startswith("/memfd:queued")])


def at_work(server: Server) -> int:
    # A new worker has the server's name at first.
    return len([name for name in server.worker_names() if name not in {"cni-serve", "cni-worker"}])


def is_served(server: Server) -> bool:
    with client(server.socket) as launcher:
        return launcher.call(request_for("noop", VERSION)) == 0


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
def test_pool_grows_while_callers_keep_workers_waiting_and_shrinks_afterwards(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        until(lambda: len(server.workers()) == 4)
        with ExitStack() as held:
            waiting = [held.enter_context(client(server.socket, None)) for _ in range(10)]
            assert all(caller.begin() for caller in waiting)
            assert is_served(server)
            assert len(server.workers()) > len(waiting)
            assert [caller.finish() for caller in waiting] == [0] * len(waiting)

        until(lambda: len(server.workers()) == 4)
        assert is_served(server)
        assert server.stop() == 0
        assert server.requests() == 12


def test_calls_that_wait_for_a_networks_lock_leave_places_to_other_networks(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        locked, other = (Network(server, tmp_path, name) for name in ("locked", "other"))
        with locked.locked():
            waiting = [locked.start(f"w{number}") for number in range(200)]
            until(lambda: queued(server) == len(waiting) - LOCKED_NETWORK_SLOTS)

            # The worker that has queued the last call takes its own name back only then.
            until(lambda: at_work(server) == LOCKED_NETWORK_SLOTS)
            added = [result(other.start(f"o{number}")) for number in range(20)]

            assert len(added) == other.reserved() == 20
            until(lambda: at_work(server) == LOCKED_NETWORK_SLOTS)
            assert queued(server) == len(waiting) - LOCKED_NETWORK_SLOTS
            assert [process.poll() for process in waiting] == [None] * len(waiting)
        addresses = {result(process)["ips"][0]["address"] for process in waiting}

        assert len(addresses) == locked.reserved() == 200
        assert (queued(server), server.stop()) == (0, 0)
        assert server.log().count("\n") == 3, server.log()  # listening, draining, ended


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_waiting_call_of_an_ended_launcher_is_dropped(tmp_path: Path, number: signal.Signals) -> None:
    with running_server(tmp_path) as server:
        network = Network(server, tmp_path, "locked")
        with network.locked():
            first = [network.start(f"f{index}") for index in range(LOCKED_NETWORK_SLOTS)]
            until(lambda: at_work(server) == LOCKED_NETWORK_SLOTS)
            more = [network.start(f"m{index}") for index in range(3)]
            until(lambda: queued(server) == len(more))

            more[1].send_signal(number)

            assert (more[1].wait(HANG), more[1].communicate()) == (-number, (b"", b""))
            until(lambda: queued(server) == len(more) - 1)
        for process in (*first, more[0], more[2]):
            result(process)
        assert network.reserved() == LOCKED_NETWORK_SLOTS + 2


def test_server_that_drains_has_its_parked_calls_done(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        network = Network(server, tmp_path, "locked")
        with network.locked():
            waiting = [network.start(f"w{number}") for number in range(30)]
            until(lambda: queued(server) == len(waiting) - LOCKED_NETWORK_SLOTS)
            server.process.terminate()
            until(lambda: "draining" in server.log())
        for process in waiting:
            result(process)

        assert network.reserved() == len(waiting)
        assert server.process.wait(HANG) == 0


def test_connections_without_a_word_are_given_up_and_others_are_served(tmp_path: Path) -> None:
    with running_server(tmp_path, handoff_seconds=1.0) as server, ExitStack() as held:
        silent = [held.enter_context(client(server.socket)) for _ in range(40)]
        network = Network(server, tmp_path, "other")

        result(network.start("o1"))

        for caller in silent:
            assert caller.is_refused()
        assert server.log().count("left to the launcher: nothing was said within 1 s") == len(silent)


# Forks fail as long as there is a file.
FAILING_FORK = """
import errno, os
fork = os.fork
def fail_or_fork():
    if os.path.exists({flag!r}):
        raise OSError({number}, os.strerror({number}))
    return fork()
os.fork = fail_or_fork
"""


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
def test_server_survives_a_fork_that_fails(tmp_path: Path, number: int) -> None:
    flag = tmp_path / "flag"
    with running_server(tmp_path, prelude=FAILING_FORK.format(flag=str(flag), number=number)) as server:
        workers = until_there_are(server, 4)
        flag.touch()
        for pid in workers[1:]:
            os.kill(pid, signal.SIGKILL)

        until(lambda: f"no worker can be forked: [Errno {number}]" in server.log())
        assert is_served(server)
        os.kill(workers[0], signal.SIGKILL)
        until(lambda: server.workers() == set())
        assert server.process.poll() is None
        flag.unlink()
        until_there_are(server, 4)
        assert is_served(server)
        assert server.stop() == 0


def until_there_are(server: Server, number: int) -> Sequence[int]:
    until(lambda: len(server.workers()) == number)
    return sorted(server.workers())


def test_sequential_requests_do_not_wake_the_server(tmp_path: Path) -> None:
    def switches() -> int:
        lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))

    with running_server(tmp_path) as server:
        until_there_are(server, 4)
        before = switches()
        for _ in range(150):
            assert is_served(server)

        # At most once a second it looks at its installation.
        assert switches() - before < 75
