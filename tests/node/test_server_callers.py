"""What of a caller does not keep it from being served: runtimes as systemd starts them, and much else."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.launcher import compiled_launcher
from skel import SUPPORTED
from tests.attachments import Network, bridge_config
from tests.nodes import HANG, Node
from tests.runtime_units import UNITS, Unit
from tests.servers import Server, running_server, served_only, write_launchers

VERSION = {"CNI_COMMAND": "VERSION"}
VERSIONS = {"cniVersion": "1.1.0", "supportedVersions": list(SUPPORTED)}

AS_A_SERVICE = ["prlimit", "--nofile=1024:", "--", "choom", "--adjust=100", "--"]

pytestmark = pytest.mark.sudo


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with other limits and another OOM score than any caller here."""
    with running_server(tmp_path_factory.mktemp("server"), prefix=AS_A_SERVICE) as running:
        yield running


@pytest.fixture
def bin_dir(server: Server, tmp_path: Path) -> Path:
    """Launchers that have no plugin executed but by the server."""
    content = compiled_launcher(socket=str(server.socket), timeout=HANG)
    assert content is not None, "the launcher is not compiled"
    return write_launchers(tmp_path / "bin", served_only(content))


def test_launcher_that_is_not_served_has_no_answer(bin_dir: Path) -> None:
    run = subprocess.run(
        ["setpriv", "--no-new-privs", bin_dir / "noop"], env=VERSION, capture_output=True, text=True, check=False
    )

    assert run.returncode == 1
    assert json.loads(run.stdout)["msg"].startswith("no such interpreter: /nonexistent")


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_runtimes_as_systemd_starts_them_are_served(node: Node, bin_dir: Path, server: Server, unit: Unit) -> None:
    """With a session of their own, SIGPIPE ignored, and variables that tell of systemd."""
    before = server.log()
    environ = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "c1",
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": node.pod_namespace("pod"),
        "CNI_PATH": str(bin_dir),
        "INVOCATION_ID": "0123456789abcdef0123456789abcdef",
        "JOURNAL_STREAM": "9:1",
        "NOTIFY_SOCKET": "/run/systemd/notify",
    }
    config = json.dumps(Network(node, bin_dir, bridge_config(ipMasq=True)).config)
    caller = ["setsid", "--wait", *unit.prefix(), "env", "--ignore-signal=PIPE", str(bin_dir / "bridge")]

    added = node.run(caller, env=environ, stdin=config)
    deleted = node.run(caller, env={**environ, "CNI_COMMAND": "DEL"}, stdin=config)

    assert len(json.loads(added.stdout)["ips"]) == 2
    assert (deleted.stdout, deleted.stderr) == ("", "")
    assert "left to the launcher" not in server.log().removeprefix(before)


OF_ANOTHER_NAME = 'exec -a "$(printf \'x\\nUid:\\t1\\t1\\t1\\t1\')" "$0" "$@"'


@pytest.mark.parametrize(
    "prefix",
    [
        ["nice", "-n", "10"],
        ["choom", "--adjust=1000", "--"],
        ["choom", "--adjust=100", "--"],
        ["prlimit", "--nofile=64", "--"],
        ["prlimit", "--nofile=20000", "--"],
        ["prlimit", "--nproc=5000", "--"],
        ["prlimit", "--core=0", "--"],
        ["prlimit", "--core=unlimited", "--"],
        ["prlimit", "--stack=1000000", "--"],
        ["prlimit", "--stack=unlimited", "--"],
        ["prlimit", "--memlock=0", "--sigpending=0", "--msgqueue=0", "--"],
        ["env", "--ignore-signal=PIPE,HUP,CHLD,USR1", "--block-signal=USR2,ALRM,CHLD"],
        ["unshare", "--uts"],
        ["unshare", "--ipc"],
        ["unshare", "--cgroup"],
        ["unshare", "--time"],
        ["unshare", "--net"],
        ["unshare", "--mount"],
        ["setsid", "--wait"],
        ["ionice", "--class", "3"],
        ["chrt", "--batch", "0"],
        ["taskset", "1"],
        ["setpriv", "--groups=4,24"],
        ["bash", "-c", 'umask 077; ulimit -c 0; exec "$0" "$@"'],
        ["bash", "-c", OF_ANOTHER_NAME],
    ],
    ids=" ".join,
)
def test_callers_that_differ_in_irrelevant_properties_are_served(
    bin_dir: Path, server: Server, prefix: list[str]
) -> None:
    before = server.log()

    run = subprocess.run([*prefix, bin_dir / "noop"], env=VERSION, capture_output=True, timeout=HANG, check=False)

    assert (run.returncode, run.stdout and json.loads(run.stdout), run.stderr) == (0, VERSIONS, b"")
    assert "left to the launcher" not in server.log().removeprefix(before)


def test_caller_in_another_control_group_is_served(bin_dir: Path, server: Server) -> None:
    """In one of the caller's own, if it can make one."""
    before = server.log()
    folder = Path("/sys/fs/cgroup", "unified" if Path("/sys/fs/cgroup/unified").is_dir() else "")
    group = folder / f"cni-harness-test-{os.getpid()}"
    group.mkdir()
    try:
        enter = f'echo $$ >{group}/cgroup.procs && exec "$0"'
        run = subprocess.run(["sh", "-c", enter, bin_dir / "noop"], env=VERSION, capture_output=True, check=True)
    finally:
        group.rmdir()

    assert json.loads(run.stdout) == VERSIONS
    assert "left to the launcher" not in server.log().removeprefix(before)
