"""Pods on a node whose mounts are shared: no end of a pod takes a mount of the node away."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli import ROOT
from tests.manifests import FOREVER, WIRES, KubeletNode, container, pod
from tests.nodes import _namespace_of

pytestmark = pytest.mark.sudo

_SHARED_NODE = """
set -e
mount --make-rshared /
mount -t tmpfs -o mode=777 tmpfs "$0/inner/below"
echo kept > "$0/inner/below/file"
echo ready
read -r _ || :
"""


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    (folder / "inner/below").mkdir(parents=True)
    (folder / "inner/text").write_text("of the node\n")
    return folder


@pytest.fixture
def shared(kubelet_node: KubeletNode, volume: Path) -> Iterator[KubeletNode]:
    """A node whose mounts are all shared, as systemd leaves them, with a tmpfs below the folder of a volume."""
    # A slave of the machine: no mount of the test reaches it.
    holder = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", _SHARED_NODE, str(volume)]
    mounts = _namespace_of(holder, "mnt")
    kubelet_node.prefix = ["nsenter", f"--mount=/proc/{os.getpid()}/fd/{mounts}", "--"]
    kubelet_node.configure(WIRES)
    yield kubelet_node
    kubelet_node.close()
    os.close(mounts)


def _on_node(node: KubeletNode, *command: str) -> str:
    run = subprocess.run([*node.prefix, *command], check=False, capture_output=True, text=True, timeout=60)
    return run.stdout.strip()


def _mounts_of_node(node: KubeletNode) -> list[str]:
    return [line for line in _on_node(node, "cat", "/proc/self/mountinfo").splitlines() if str(node.node_dir) in line]


def _pod(volume: Path, sub_path: str, propagation: str) -> dict[str, Any]:
    mount = {"name": "v", "mountPath": "/v", "mountPropagation": propagation}
    if sub_path:
        mount["subPath"] = sub_path
    memory = {"name": "m", "mountPath": "/m"}
    app = container("app", FOREVER, volumeMounts=[mount, memory], securityContext={"privileged": True})
    of_node = {"name": "v", "hostPath": {"path": str(volume)}}
    return pod("web", app, volumes=[of_node, {"name": "m", "emptyDir": {"medium": "Memory"}}])


@pytest.mark.mostly_slow(4, "each kind of mount; a part is in make test")
@pytest.mark.parametrize("propagation", ["None", "HostToContainer"])
@pytest.mark.parametrize("sub_path", ["", "inner", "inner/below", "inner/text"])
def test_deleted_pod_leaves_mounts_below_its_host_path(
    shared: KubeletNode, volume: Path, sub_path: str, propagation: str
) -> None:
    shared.start(_pod(volume, sub_path, propagation))
    own = _mounts_of_node(shared)
    shared.run("delete", "web")

    assert _on_node(shared, "cat", f"{volume}/inner/below/file") == "kept"
    assert _on_node(shared, "cat", f"{volume}/inner/text") == "of the node"
    assert _mounts_of_node(shared) == []
    assert len(own) == (3 if sub_path else 2)
    assert [line for line in own if "shared:" in line] == [
        line for line in own if "volume-subpaths" in line and propagation == "HostToContainer"
    ]


def test_refused_bidirectional_mount_leaves_mounts_below_its_host_path(shared: KubeletNode, volume: Path) -> None:
    shared.refused(_pod(volume, "inner", "Bidirectional"), "--timeout", "20")
    shared.run("delete", "--all")

    assert _on_node(shared, "cat", f"{volume}/inner/below/file") == "kept"
    assert _mounts_of_node(shared) == []


def test_bidirectional_sub_path_leaves_mounts_of_its_containers_on_the_node(
    shared: KubeletNode, volume: Path, tmp_path: Path
) -> None:
    (volume / "inner/new").mkdir()
    target = tmp_path / "targets/v/app/0"

    def in_python(call: str) -> None:
        names = "bound_sub_path, remove_sub_paths"
        program = f"from pathlib import Path; from harness.kubelet.volumes.sub_paths import {names}; {call}"
        _on_node(shared, "env", f"PYTHONPATH={ROOT}", sys.executable, "-c", program)

    in_python(f"bound_sub_path(Path({str(volume)!r}), 'inner', 'v', Path({str(target)!r}), 'rshared')")
    _on_node(shared, "mount", "-t", "tmpfs", "tmpfs", f"{target}/new")
    _on_node(shared, "touch", f"{target}/new/of-a-container")
    in_python(f"remove_sub_paths(Path({str(tmp_path)!r}) / 'targets')")

    assert _on_node(shared, "ls", f"{volume}/inner/new") == "of-a-container"
    assert _on_node(shared, "cat", f"{volume}/inner/below/file") == "kept"
    assert not target.exists()


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize(("propagation", "seen"), [("None", ""), ("HostToContainer", "later")])
def test_later_mount_of_the_node_reaches_containers_that_ask_for_it(
    shared: KubeletNode, volume: Path, propagation: str, seen: str
) -> None:
    (volume / "inner/new").mkdir()
    shared.start(_pod(volume, "inner", propagation))

    _on_node(shared, "mount", "-t", "tmpfs", "tmpfs", f"{volume}/inner/new")
    _on_node(shared, "touch", f"{volume}/inner/new/later")
    found = shared.run("exec", "web", "--", "ls", "/v/new").stdout.strip()
    shared.run("delete", "web")

    assert found == seen
    assert _on_node(shared, "ls", f"{volume}/inner/new") == "later"
