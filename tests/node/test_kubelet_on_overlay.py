"""A node whose files lie on an overlay, as in a container of Docker or Podman: no overlay can be its upper layer."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builtin_containers import BUSYBOX
from tests.manifests import FOREVER, WIRES, KubeletNode, container, pod

pytestmark = pytest.mark.sudo


@pytest.fixture
def on_overlay(tmp_path: Path, direct_bin_dir: Path) -> Iterator[KubeletNode]:
    """A node with all of its files on an overlay."""
    base, folder = tmp_path / "base", tmp_path / "node"
    for path in (base, folder):
        path.mkdir()
    # Overlay's own layers need another file system where the tests run in a container.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", base], check=True)
    for name in ("lower", "upper", "work"):
        (base / name).mkdir()
    options = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", folder], check=True)
    try:
        node = KubeletNode(folder, direct_bin_dir)
        yield node
        node.close()
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        subprocess.run(["umount", "--lazy", base], check=True)


def test_container_of_an_image_writes_its_files_into_memory(on_overlay: KubeletNode, busybox_layout: Path) -> None:
    on_overlay.configure(WIRES)
    on_overlay.run("image", "load", str(busybox_layout))
    before = on_overlay.snapshot()
    context = {"runAsUser": 0}
    crash = ["sh", "-c", f"[ -e /d/once ] || {{ touch /d/once /lost; exit 1; }}; [ ! -e /lost ] && {FOREVER[2]}"]
    mounts = [{"name": "d", "mountPath": "/d"}]
    app = container("app", crash, image=BUSYBOX, volumeMounts=mounts, securityContext=context)
    bare = container("bare", volumeMounts=mounts)

    on_overlay.start(pod("web", app, bare, volumes=[{"name": "d", "emptyDir": {}}]), "--timeout", "100")
    script = "stat -c %a:%u /; echo changed > /etc/passwd; cat /etc/passwd; cat /proc/self/mountinfo"
    attributes, text, *lines = on_overlay.run("exec", "web", "-c", "app", "--", "sh", "-c", script).stdout.splitlines()
    [root] = [line for line in lines if line.split()[4] == "/"]
    on_overlay.run("delete", "web")

    assert (attributes, text) == ("755:0", "changed")
    assert "upperdir=memory/upper" in root
    assert list((on_overlay.node_dir / "containers").iterdir()) == []
    on_overlay.assert_nothing_left(before)
