"""What the fork server has done before it forks: then a worker finds all of it, and forks of it are safe."""

import json
import sys
from pathlib import Path

import pytest

from tests.attachments import bridge_config
from tests.cli import ROOT
from tests.nodes import Node

pytestmark = pytest.mark.sudo

# Prints what there is to be said of a process that has done all that the server does before it forks.
PREPARED = """
import json, os, sys, threading
sys.path[:0] = {path!r}
logged = []
from skel.preload import load_all, rehearse
files = set(os.listdir("/proc/self/fd"))
network = os.readlink("/proc/self/ns/net")
load_all(logged.append)
rehearse(logged.append)
assert network == os.readlink("/proc/self/ns/net")
threads = threading.active_count()
loaded = set(sys.modules)
files_after = set(os.listdir("/proc/self/fd"))
from skel.dispatch import dispatch
from skel.suite import load
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


def test_rehearsal_leaves_nothing_on_the_node(node: Node, tmp_path: Path) -> None:
    before = node.state()
    script = PREPARED.format(path=[str(ROOT), *sys.path])

    node.run([sys.executable, "-I", "-c", script], stdin="[]", env={"TMPDIR": str(tmp_path)})

    node.assert_same_state(before)
    assert not list(tmp_path.glob("cni-harness-rehearsal-*"))


def test_rehearsal_that_fails_is_no_more_than_logged(node: Node) -> None:
    script = PREPARED.format(path=[str(ROOT), *sys.path])
    script = script.replace("rehearse(logged", "import resource; resource.setrlimit(1, (0, 0)); rehearse(logged")

    run = node.run([sys.executable, "-I", "-c", script], stdin="[]")

    said = json.loads(run.stdout)
    assert [line.partition(":")[0] for line in said["logged"]] == ["no rehearsal"]
    assert said["left open"] == 0
