"""Mounts and profiles of a manifest, from the key to the container."""

import subprocess
from pathlib import Path

import pytest

from tests.builtin_containers import BUSYBOX
from tests.manifests import FOREVER, KubeletNode, container, pod

pytestmark = pytest.mark.sudo


def test_sub_paths_profiles_and_recursive_mounts(bridged: KubeletNode, busybox_layout: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "inner/below").mkdir(parents=True)
    (volume / "inner/file").write_text("of the node")
    bridged.run("image", "load", str(busybox_layout))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777", "tmpfs", volume / "inner/below"], check=True)
    try:
        before = bridged.snapshot()
        mount = {"name": "v", "mountPath": "/v", "subPath": "inner", "readOnly": True, "recursiveReadOnly": "Enabled"}
        app = container("app", FOREVER, image=BUSYBOX, volumeMounts=[mount])
        context = {"seccompProfile": {"type": "RuntimeDefault"}, "runAsUser": 0}
        of_node = [{"name": "v", "hostPath": {"path": str(volume)}}]
        bridged.write(pod("mounts", app, securityContext=context, volumes=of_node))

        bridged.run("run", "-f", str(bridged.manifests), "--timeout", "100")
        script = "cat /v/file; echo; touch /v/below/x 2>/dev/null || echo read-only; grep Seccomp: /proc/self/status"
        told = bridged.run("exec", "mounts", "--", "sh", "-c", script).stdout.split()
        bridged.run("delete", "--all")

        assert told == ["of", "the", "node", "read-only", "Seccomp:", "2"]
        assert (volume / "inner/file").read_text() == "of the node"
        assert f"{bridged.node_dir}/kubelet/" not in Path("/proc/self/mountinfo").read_text()
        bridged.assert_nothing_left(before)
    finally:
        subprocess.run(["umount", volume / "inner/below"], check=True)
