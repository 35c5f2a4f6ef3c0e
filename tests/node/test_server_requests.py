"""Whom the server serves, and whom it leaves to execute the plugin by themselves."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from launch.launcher import launcher_bytes
from netlink.namespace import entered, open_namespace
from skel import SUPPORTED
from tests.attachments import Network, bridge_config
from tests.nodes import HANG, Node, until
from tests.server_client import Client, client, encode_request, request_for
from tests.servers import Server, running_server, write_launchers

VERSION = {"CNI_COMMAND": "VERSION"}
VERSIONS = {"cniVersion": "1.1.0", "supportedVersions": list(SUPPORTED)}

pytestmark = pytest.mark.sudo


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def test_request_is_served(server: Server) -> None:
    with client(server.socket) as launcher:
        assert launcher.call(request_for("noop", VERSION)) == 0
        assert json.loads(launcher.stdout) == VERSIONS


@pytest.mark.parametrize(
    ("plugin", "changes", "why"),
    [
        ("noop", {"build_id": bytes(16)}, "another installation"),
        ("calico", {}, "no plugin of this suite: calico"),
        ("../noop", {}, "no plugin of this suite"),
        ("", {}, "no plugin of this suite"),
    ],
)
def test_other_requests_are_left_to_the_launcher(
    server: Server, plugin: str, changes: dict[str, Any], why: str
) -> None:
    before = server.log()

    with client(server.socket) as launcher:
        launcher.ask(request_for(plugin, VERSION, **changes))

        assert launcher.is_refused()

    assert why in server.log().removeprefix(before)


@pytest.mark.parametrize(
    "packet",
    [
        b"x",
        b"CNIH\x03" + bytes(100),
        b"CNIH\x04" + bytes(23),
        encode_request(request_for("noop", VERSION))[:40].replace(b"noop\0", b"noop."),
        encode_request(request_for("noop", {}))[:-5],
        bytes(150_000),
    ],
)
def test_nonsense_is_answered_by_the_end_of_the_connection(server: Server, packet: bytes) -> None:
    with client(server.socket) as launcher:
        launcher.send(packet, launcher.files())

        assert launcher.is_refused()


def test_request_without_files_is_refused(server: Server) -> None:
    with client(server.socket) as launcher:
        launcher.send(encode_request(request_for("noop", VERSION)))

        assert launcher.is_refused()


def test_request_with_the_wrong_files_is_refused(server: Server) -> None:
    with client(server.socket) as launcher:
        launcher.send(encode_request(request_for("noop", VERSION)), [*launcher.files(), launcher.token])

        assert launcher.is_refused()


def test_without_stdin_the_call_has_none(server: Server) -> None:
    with client(server.socket) as launcher:
        launcher.send(encode_request(request_for("noop", {"CNI_COMMAND": "STATUS"})), launcher.files()[:-1])

        assert launcher.end() == 1
        assert "reading the network configuration from stdin: [Errno 9]" in json.loads(launcher.stdout)["msg"]


def test_stdin_that_is_a_directory_is_an_error(server: Server) -> None:
    with client(server.socket) as launcher:
        files = [*launcher.files()[:-1], launcher.files()[0]]
        launcher.send(encode_request(request_for("noop", {"CNI_COMMAND": "STATUS"})), files)

        assert launcher.end() == 1
        assert json.loads(launcher.stdout)["code"] == 5


def test_connections_that_end_without_a_word_cost_no_worker(server: Server) -> None:
    until(lambda: len(server.workers()) == 4)
    workers = server.workers()
    for _ in range(20):
        with client(server.socket):
            pass

    with client(server.socket) as launcher:
        assert launcher.call(request_for("noop", VERSION)) == 0
    # On a busy machine a call may take so long that another worker is forked.
    assert server.workers() >= workers


def test_request_without_its_token_is_not_executed(node: Node, tmp_path: Path) -> None:
    environ = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "c1",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": node.pod_namespace("pod"),
        "CNI_PATH": str(tmp_path),
    }
    before = node.state()

    with running_server(tmp_path) as server:
        with open_namespace(node.path) as namespace, entered(namespace):
            turned_away = Client(server.socket, json.dumps(bridge_config(ipam={})))
        with closing(turned_away) as launcher:
            assert launcher.take()
            launcher.ask(request_for("bridge", environ))
            launcher.connection.recv(1)
        server.stop()

        assert server.requests() == 1
    node.assert_same_state(before)


def test_only_root_can_connect(server: Server) -> None:
    assert server.socket.stat().st_mode & 0o777 == 0o600


def test_environment_too_large_for_a_packet_is_executed_by_the_launcher(server: Server, tmp_path: Path) -> None:
    bin_dir = write_launchers(tmp_path / "bin", launcher_bytes(socket=str(server.socket), timeout=HANG))
    large = {f"LARGE{number}": "x" * 100_000 for number in range(5)}

    run = subprocess.run([bin_dir / "noop"], env={**VERSION, **large}, capture_output=True, check=True)

    assert json.loads(run.stdout) == VERSIONS


@pytest.mark.slow("five hundred processes; single requests are in make test")
def test_five_hundred_at_once_are_all_served(node: Node, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        bin_dir = write_launchers(tmp_path / "bin", launcher_bytes(socket=str(server.socket), timeout=HANG))
        ipam = {"type": "host-local", "subnet": "10.9.0.0/16"}
        config = json.dumps({"cniVersion": "1.1.0", "name": "many", "type": "host-local", "ipam": ipam})
        (tmp_path / "config").write_text(config)
        environ = {"CNI_IFNAME": "eth0", "CNI_NETNS": "/run/netns/none", "CNI_PATH": str(bin_dir)}

        def start(number: int) -> subprocess.Popen[bytes]:
            verb = ("VERSION", "STATUS", "ADD", "ADD", "VERSION")[number % 5]
            with (tmp_path / "config").open() as stdin:
                return subprocess.Popen(
                    node.command([bin_dir / "host-local"]),
                    env={**environ, "CNI_COMMAND": verb, "CNI_CONTAINERID": f"id-{number}"},
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )

        running = [start(number) for number in range(500)]
        answers = [(*process.communicate(timeout=HANG), process.returncode) for process in running]

        assert {(stderr, code) for _, stderr, code in answers} == {(b"", 0)}
        added = [json.loads(answers[number][0])["ips"][0]["address"] for number in range(500) if number % 5 in {2, 3}]
        assert len(set(added)) == 200
        assert all(json.loads(answers[number][0]) == VERSIONS for number in range(500) if number % 5 in {0, 4})
        assert server.stop() == 0
        assert server.requests() == 500
        assert server.log().count("\n") == 3, server.log()  # listening, draining, ended


def test_memory_of_the_server_and_its_idle_workers(node: Node, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        bin_dir = write_launchers(tmp_path / "bin", launcher_bytes(socket=str(server.socket), timeout=HANG))
        network = Network(node, bin_dir, bridge_config(ipMasq=True))
        for pod in range(6):
            network.add(f"p{pod}")
        until(lambda: len(server.workers()) == 4)

        pss = {pid: proportional_set_size(pid) for pid in (server.pid, *server.workers())}

    assert sum(pss.values()) <= 80 * 1024, pss


def proportional_set_size(pid: int) -> int:
    """The proportional memory of a process in KiB: shared pages are divided by the number of sharers."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
