"""What the fork server has done before it forks: then a worker finds all of it, and forks of it are safe."""

import json
import sys
from pathlib import Path

import pytest

from launch.server.prefault import PAGE_BYTES, make_own
from tests.attachments import bridge_config
from tests.cli import ROOT
from tests.nodes import Node, until
from tests.server_client import client, request_for
from tests.servers import fork_server

pytestmark = pytest.mark.sudo

# Prints what there is to be said of a process that has done all that the server does before it forks.
PREPARED = """
import json, os, sys, threading
sys.path[:0] = {path!r}
logged = []
from launch.server.warmup import load_all, rehearse, stage
files = set(os.listdir("/proc/self/fd"))
network = os.readlink("/proc/self/ns/net")
load_all(logged.append, {})
with stage() as scene:
    rehearse(scene, logged.append)
assert network == os.readlink("/proc/self/ns/net")
threads = threading.active_count()
# As the server does next. Before a fork the sockets are closed that would have waited for a deletion.
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
loaded = set(sys.modules)
files_after = set(os.listdir("/proc/self/fd"))
from skel.dispatch import dispatch
from launch.plugin_list import load
outcomes = []
for step in json.load(sys.stdin):
    if step["environ"]["CNI_COMMAND"] in {{"DEL", "CHECK"}} and outcomes:
        step["config"]["prevResult"] = json.loads(outcomes[0][0])
    outcome = dispatch(load(step["config"]["type"]), step["environ"], json.dumps(step["config"]).encode)
    outcomes.append([outcome.stdout.decode(), outcome.stderr.decode(), outcome.code])
json.dump({{
    "logged": logged,
    "left open": len(files_after) - len(files),
    "threads": threads,
    "outcomes": outcomes,
    "loaded late": sorted(set(sys.modules) - loaded),
}}, sys.stdout)
"""

DELEGATE = """#!/bin/sh
echo '{"cniVersion": "1.1.0", "ips": [{"address": "192.0.2.5/24", "gateway": "192.0.2.1"}]}'
"""


@pytest.mark.parametrize("backend", ["", "iptables"])
def test_nothing_is_left_to_be_loaded_by_a_worker(node: Node, backend: str) -> None:
    delegate = node.bin_dir / "delegate"
    delegate.write_text(DELEGATE)
    delegate.chmod(0o755)
    pod = node.pod_namespace("pod")
    config = bridge_config(ipMasq=True, macspoofchk=True, isDefaultGateway=True, ipam={"type": "delegate"})
    if backend:
        config["ipMasqBackend"] = backend
    common = {"CNI_CONTAINERID": "c1", "CNI_IFNAME": "eth0", "CNI_NETNS": pod, "CNI_PATH": str(node.bin_dir)}
    steps = [
        {"config": config, "environ": {**node.environment, **common, "CNI_COMMAND": verb}}
        for verb in ("ADD", "CHECK", "STATUS", "DEL")
    ]
    script = PREPARED.format(path=[str(ROOT), *sys.path])

    run = node.run([sys.executable, "-I", "-c", script], stdin=json.dumps(steps))

    said = json.loads(run.stdout)
    assert [code for *_, code in said["outcomes"]] == [0, 0, 0, 0], said
    assert said["loaded late"] == []
    assert (said["logged"], said["left open"], said["threads"]) == ([], 0, 1)


def test_rehearsal_leaves_nothing_on_the_node(node: Node) -> None:
    before = node.state()
    script = PREPARED.format(path=[str(ROOT), *sys.path])

    node.run([sys.executable, "-I", "-c", script], stdin="[]")

    node.assert_same_state(before)


READ_ONLY = """
findmnt --raw --noheadings --output TARGET | grep -Ev '^/(proc|dev|sys)(/|$)' | while read -r target; do
    mount -o remount,bind,ro "$target" || exit
done
exec "$@"
"""


def test_rehearsal_needs_no_place_on_the_nodes_file_systems(node: Node) -> None:
    """None may be fit for it, as /tmp is often mounted noexec; and a server may be killed in the middle of it."""
    script = PREPARED.format(path=[str(ROOT), *sys.path])
    command = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", sys.executable, "-I", "-c", script]

    run = node.run(command, stdin="[]")

    assert json.loads(run.stdout)["logged"] == []


def test_server_that_cannot_rehearse_says_so_and_serves(tmp_path: Path) -> None:
    no_large_files = 'ulimit -S -f 8 && exec "$@"'  # of 512 bytes

    with fork_server(tmp_path, prefix=["sh", "-c", no_large_files, "sh"]) as server:
        assert "no rehearsal: [Errno 27] File too large" in server.log()
        with client(server.socket) as launcher:
            assert launcher.ask(request_for("noop", {"CNI_COMMAND": "VERSION"}))
            assert launcher.go() == 0


def test_waiting_workers_have_the_memory_of_an_execution_to_themselves(tmp_path: Path) -> None:
    def private_kib(pid: int) -> int:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))

    with fork_server(tmp_path) as server:
        until(lambda: len(server.workers()) == 4)

        # An ADD writes to more than 2 MiB: see launch/server/prefault.py.
        until(lambda: min(private_kib(pid) for pid in server.workers()) > 2 * 1024)


def test_launchers_are_not_kept_waiting_for_memory(tmp_path: Path) -> None:
    looks = iter([False, False, True])

    make_own([(0, PAGE_BYTES)] * 1000, lambda: next(looks))

    assert list(looks) == []
