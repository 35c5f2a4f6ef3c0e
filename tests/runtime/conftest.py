"""Fixtures: containerd on a node where this project is installed, with images that were made here."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.cli import ROOT
from tests.nodes import until
from tests.runtime.containerd import Containerd
from tests.runtime.cri import SECONDS
from tests.runtime.node import RuntimeNode
from tests.runtime.oci import busybox_archive, pause_archive
from tests.servers import children

LOGS = ROOT / "build" / "runtimes"

# Storage in memory. No monitor of its own cgroups, no log daemon: neither is on a node of the tests.
PODMAN_OPTIONS = [
    "--root=/run/podman/root",
    "--runroot=/run/podman/run",
    "--storage-driver=vfs",
    "--cgroup-manager=cgroupfs",
]
PODMAN_OPTIONS += ["--events-backend=file", "--runtime=runc", "--network-backend=cni", "--log-level=error"]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Whoever asks for a runtime needs root, and time for some calls that take as long as they may."""
    item.add_marker(pytest.mark.sudo)
    item.add_marker(pytest.mark.time_limit(4 * SECONDS, "calls of a runtime take as long as they may"))


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The images of a pod and of a container, as files."""
    folder = tmp_path_factory.mktemp("images")
    return [pause_archive(folder), busybox_archive(folder)]


@pytest.fixture
def log(request: pytest.FixtureRequest) -> Path:
    """Where all that is started on the node logs to; kept, and made anew by each run of the test."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"{re.sub('[^a-zA-Z0-9_.]+', '-', request.node.name).strip('-')}.log"
    path.unlink(missing_ok=True)
    return path


@pytest.fixture
def runtime_node(tmp_path: Path) -> Iterator[RuntimeNode]:
    """A node where `cni-harness install --conf --divert` has replaced Debian's plugins."""
    node = RuntimeNode(tmp_path)
    try:
        folders = ["--bin-dir=/usr/lib/cni", "--conf-dir=/etc/cni/net.d"]
        node.run(node.cni_harness("install", *folders, "--conf", "--divert"))
        yield node
    finally:
        node.close()


@pytest.fixture
def podman(runtime_node: RuntimeNode, archives: list[Path]) -> Iterator[list[str]]:
    """The command line of Podman on a node with our plugins and no network list."""
    runtime_node.run(["sh", "-c", "rm -f /etc/cni/net.d/*"])
    runtime_node.run(["mkdir", "-p", "/etc/containers"])
    runtime_node.run(["tee", "/etc/containers/policy.json"], stdin='{"default": [{"type": "insecureAcceptAnything"}]}')
    command = ["podman", *PODMAN_OPTIONS]
    runtime_node.run([*command, "load", "--input", archives[1]])
    yield command
    runtime_node.run([*command, "rm", "--all", "--force", "--time=0"], check=False)


@pytest.fixture
def idle_containerd(runtime_node: RuntimeNode, log: Path) -> Iterator[Containerd]:
    """The containerd of the node, which does not run yet."""
    made = Containerd(runtime_node, log)
    yield made
    made.close()


@pytest.fixture(params=["direct", "served"])
def containerd(
    request: pytest.FixtureRequest, idle_containerd: Containerd, archives: list[Path], log: Path
) -> Iterator[Containerd]:
    """The same, when it answers and has images; each test runs without our server and with it."""
    idle_containerd.start()
    idle_containerd.import_images(archives)
    with serving(idle_containerd.node, log) if request.param == "served" else nullcontext():
        yield idle_containerd


@contextmanager
def serving(node: RuntimeNode, log: Path) -> Iterator[None]:
    """Run the server where launchers look for it; it must have been of use, and end well."""
    parent = node.start(node.cni_harness("serve"), log)
    until((node.root / "run/cni-harness/server.sock").exists, within=SECONDS)
    yield
    [server] = children(parent.pid)
    os.kill(server, signal.SIGTERM)

    assert parent.wait(SECONDS) == 0
    [requests] = re.findall(r"ended after (\d+) requests", log.read_text())
    assert int(requests) > 0
