"""Podman's default network, as Podman itself writes it, with every one of its plugins ours."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.node import RuntimeNode
from tests.runtime.oci import BUSYBOX

# Storage in memory. No monitor of its own cgroups, no log daemon: neither is on a node of the tests.
OPTIONS = ["--root=/run/podman/root", "--runroot=/run/podman/run", "--storage-driver=vfs", "--cgroup-manager=cgroupfs"]
OPTIONS += ["--events-backend=file", "--runtime=runc", "--network-backend=cni", "--log-level=error"]
KEPT = ["*cni-podman0*", "node/sysctl/*", "files/*"]


@pytest.fixture
def podman(runtime_node: RuntimeNode, archives: list[Path]) -> Iterator[list[str]]:
    """The command line of Podman on a node with our plugins and no network list."""
    runtime_node.run(["sh", "-c", "rm -f /etc/cni/net.d/*"])
    runtime_node.run(["mkdir", "-p", "/etc/containers"])
    runtime_node.run(["tee", "/etc/containers/policy.json"], stdin='{"default": [{"type": "insecureAcceptAnything"}]}')
    command = ["podman", *OPTIONS]
    runtime_node.run([*command, "load", "--input", archives[1]])
    yield command
    runtime_node.run([*command, "rm", "--all", "--force", "--time=0"], check=False)


def test_a_published_port_answers_and_nothing_is_left(runtime_node: RuntimeNode, podman: list[str]) -> None:
    node = runtime_node
    listed = json.loads(node.run([*podman, "network", "inspect", "podman"]).stdout)
    assert listed[0]["driver"] == "bridge"
    serve = "mkdir -p /www && echo pod > /www/index.html && exec httpd -f -p 80 -h /www"
    run = [*podman, "run", "--detach", "--publish=8080:80", BUSYBOX, "sh", "-c"]
    first = node.run([*run, serve]).stdout.strip()
    node.run([*podman, "rm", "--force", "--time=0", first])
    before = node.state()

    container = node.run([*run, serve]).stdout.strip()
    answer = node.fetched("http://127.0.0.1:8080/index.html")

    assert answer == "pod\n\n"
    node.run([*podman, "rm", "--force", "--time=0", container])
    node.assert_same_state(before, ignore=KEPT, within=60)
