"""What `run` refuses before it starts anything."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from api.pod import V1Pod
from harness.kubelet.paths import KubeletPaths
from harness.kubelet.pod_records import PodRecords
from tests.cli import ROOT

pytestmark = pytest.mark.sudo

MANIFEST: dict[str, object] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "uid": "1"},
    "spec": {"containers": [{"name": "c", "command": ["true"]}]},
}


def said(folder: Path, *manifests: dict[str, object]) -> str:
    words = ["run", "--state-dir", str(folder / "state")]
    for number, manifest in enumerate(manifests):
        path = folder / f"{number}.json"
        path.write_text(json.dumps(manifest))
        words += ["-f", str(path)]
    command = [sys.executable, "-m", "harness.cli.main", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    return ended.stderr


def test_one_name_in_two_manifests_is_refused(tmp_path: Path) -> None:
    other = MANIFEST | {"metadata": {"name": "web", "uid": "2"}}

    assert "pod default/web is in two manifests" in said(tmp_path, MANIFEST, other)
    assert not os.path.lexists(tmp_path / "state" / "kubelet" / "pods")


def test_a_pod_that_is_being_deleted_is_refused(tmp_path: Path) -> None:
    pod = V1Pod.decode(MANIFEST | {"metadata": {"name": "web", "namespace": "default", "uid": "1"}})
    PodRecords(KubeletPaths(tmp_path / "state")).set_deleted(pod, None)

    assert "pod default/web is being deleted" in said(tmp_path, MANIFEST)
