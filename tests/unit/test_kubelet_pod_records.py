"""The files of the pods that kubelet has taken on."""

import os
from pathlib import Path

from api.status import V1PodStatus
from harness.kubelet.paths import KubeletPaths
from harness.kubelet.pod_records import PodRecords
from tests.unit.kubelet_objects import UID, pod


def test_records_are_for_root_alone(tmp_path: Path) -> None:
    records = PodRecords(KubeletPaths(tmp_path))
    records.add(pod())
    records.set_status(UID, V1PodStatus(phase="Running"))

    folder = KubeletPaths(tmp_path).pod(UID)

    assert {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {
        "pod.json": "0o600",
        "status.json": "0o600",
    }


def test_a_killed_removal_is_found_later(tmp_path: Path) -> None:
    paths = KubeletPaths(tmp_path)
    records = PodRecords(paths)
    records.add(pod())
    paths.log_directory(pod()).mkdir(parents=True)
    left, new = paths.pod("left"), paths.pod("new")
    for folder in (left, new):
        folder.mkdir()
    os.utime(left, (1, 1))
    os.utime(paths.pod(UID), (1, 1))

    assert records.leftovers() == ["left"]
    records.remove("left")
    records.remove(UID)

    assert [path.name for path in paths.pods.iterdir()] == ["new"]
    assert list(paths.logs.iterdir()) == []
