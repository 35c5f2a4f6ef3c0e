"""The examples in the help of each verb, executed on a node."""

import subprocess
import sys
from pathlib import Path
from shutil import copy

import pytest

from tests.cli import ROOT
from tests.cli_examples import examples, prepare
from tests.manifests import KubeletNode, pod
from tests.nodes import HANG

pytestmark = [
    pytest.mark.sudo,
    pytest.mark.slow("a process for each example; test_cli_help has the parser read each in make test"),
]

ORDER = (
    *("options", "version", "networks", "validate", "doctor", "new-plugin", "install", "uninstall", "image"),
    *("conformance", "conformance clean", "add", "snapshot", "run", "list", "inspect", "check", "connect", "exec"),
    *("get", "describe", "logs", "status", "topology", "path", "explain", "diagnose", "gc", "repair", "disconnect"),
    *("agent", "diff", "delete", "del", "nodes", "nodes list", "nodes down"),
)
"""The verbs as they are called one after the other: each finds what earlier ones have made."""
LONG = {
    "agent --kubeconfig agent.conf --cluster-cidr 10.244.0.0/16": "it runs until a signal",
    "bench --quick": "seconds",
    "bench --bin-dir build --bin-dir /usr/lib/cni --save bench.json": "an hour",
    "conformance --bin-dir build --conf my.conflist --report run.html": "minutes",
    "conformance --conf my.conflist --check 'del-*'": "a minute",
    "conformance clean check-1": "it wants a node that a check has left",
    "conformance matrix --bin-dir build --bin-dir /usr/lib/cni": "minutes",
    "conformance matrix --bin-dir bin --conf my.conflist --save page.md": "minutes",
    "conformance runtime --judge records": "it wants records of a runtime",
    "conformance runtime --runtime libcni": "seconds",
    "image load web.tar": "it wants an image",
    "install --bin-dir /opt/cni/bin --conf-dir /etc/cni/net.d --conf": "it is for a host; test_readme installs",
    "kubelet": "it runs until a signal",
    "kubelet --manifests manifests": "it runs until a signal",
    "nodes exec 1 -- ip route": "test_nodes_verbs has it",
    "nodes exec underlay -- bridge link": "test_nodes_verbs has it",
    "nodes up --count 3 --cluster-cidr 10.244.0.0/16": "test_nodes_verbs makes nodes",
    "nodes up --count 4 --subnets 2 --cluster-cidr 10.244.0.0/16": "test_nodes_verbs makes nodes",
    "path pod1 pod2 --node a --to-node b": "it wants two nodes with routes between them",
    "repair --watch": "it runs until a signal",
    "serve": "it runs until a signal",
    "serve --workers 8 --idle-exit 5m": "minutes",
    "uninstall": "it is for a host; test_readme uninstalls",
}
"""Examples that are not executed, and why."""
CODES = {
    "agent --manifests nodes --node-name node-1 --dry-run": 1,
    "diff before.json": 1,
    "path pod1 192.0.2.1": 1,
}
"""Exit codes besides 0: there is a difference; the node has no route to that address."""


def test_examples_work_on_a_node(kubelet_node: KubeletNode, tmp_path: Path) -> None:
    node = kubelet_node
    author = tmp_path / "author"
    author.mkdir()
    prepare(author)
    (author / "cni-harness").write_text(f'#!/bin/sh\nexec {sys.executable} -m harness.cli.main "$@"\n')
    (author / "cni-harness").chmod(0o755)
    (author / "manifests" / "db.json").write_text(node.write(pod("db")).read_text())
    copy(ROOT / "docs/examples/lists/60-portmap.conflist", node.conf_dir / "00-portmap.conflist")
    for number in (10, 20, 30):
        copy(next((ROOT / "conf").glob(f"{number}-*")), node.conf_dir)
    environment = {**node.environment, "PATH": f"{author}:{node.environment['PATH']}"}
    listed = [each for each in examples() if each.line not in LONG]
    assert {each.verb for each in listed} == set(ORDER)
    failed = []

    for example in sorted(listed, key=lambda each: ORDER.index(each.verb)):
        if example.verb == "diff":
            copy(author / "before.json", author / "after.json")
        ran = subprocess.run(
            ["sh", "-c", f"cni-harness {example.line}"],
            cwd=author,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )
        if ran.returncode != CODES.get(example.line, 0):
            failed.append((example.line, ran.returncode, ran.stdout[-300:] + ran.stderr))

    assert failed == []
    assert {path.name for path in author.glob("*.html")} == {"pod1.html", "run.html"}
    assert (author / "my-gateway" / "my-gateway.conflist").exists()
    assert (author / "node.svg").read_text().startswith("<svg")
    assert node.on_record() == []
