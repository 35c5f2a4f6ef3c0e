"""The server's work before it forks: a worker finds all of it, and forks of it are safe."""

import json
import sys
from pathlib import Path

import pytest

from tests.attachments import bridge_config
from tests.cli import ROOT
from tests.nodes import Node
from tests.server_client import client, request_for
from tests.servers import running_server

pytestmark = pytest.mark.sudo

# Prints what there is to be said of a process that has done all that the server does before it forks.
PREPARED = """
import json, os, sys, threading
sys.path[:0] = {path!r}
logged = []
from launch.server.warmup import warm_up
files = set(os.listdir("/proc/self/fd"))
network = os.readlink("/proc/self/ns/net")
warm_up(logged.append, {{}})
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


def test_warm_up_leaves_nothing_on_the_node(node: Node) -> None:
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


def test_warm_up_needs_no_place_on_the_nodes_file_systems(node: Node) -> None:
    """None may be fit for it, as /tmp is often mounted noexec; and a server may be killed in the middle of it."""
    script = PREPARED.format(path=[str(ROOT), *sys.path])
    command = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", sys.executable, "-I", "-c", script]

    run = node.run(command, stdin="[]")

    assert json.loads(run.stdout)["logged"] == []


def test_server_that_cannot_warm_up_says_so_and_serves(tmp_path: Path) -> None:
    no_large_files = 'ulimit -S -f 8 && exec "$@"'  # of 512 bytes

    with running_server(tmp_path, prefix=["sh", "-c", no_large_files, "sh"]) as server:
        assert "no warm-up: [Errno 27] File too large" in server.log()
        with client(server.socket) as launcher:
            assert launcher.call(request_for("noop", {"CNI_COMMAND": "VERSION"})) == 0
