"""`image rm` leaves an image that a container uses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.containerd.container_store import ContainerRecord, ContainerStore
from harness.cri.messages import ContainerConfig, ContainerMetadata
from tests.cli import ROOT

pytestmark = pytest.mark.sudo


def test_image_of_a_container_stays(tmp_path: Path) -> None:
    stored = tmp_path / "images" / "abc"
    stored.mkdir(parents=True)
    (stored / "image.json").write_text(json.dumps({"id": "sha256:abc", "tags": ["docker.io/library/a:latest"]}))
    record = ContainerRecord(
        id="c",
        name="c",
        pod_sandbox_id="s",
        created_at=1,
        config=ContainerConfig(metadata=ContainerMetadata(name="c", attempt=0)),
        image_id="sha256:abc",
        stop_signal=15,
        arguments=[],
    )
    containers = ContainerStore(tmp_path)
    folder = containers.add(record)
    command = [sys.executable, "-m", "harness.cli.main", "image", "--state-dir", str(tmp_path), "rm", "a"]

    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    containers.remove(folder)
    removed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert refused.returncode == 1
    assert 'image "a" is in use by a container' in refused.stderr
    assert (removed.returncode, removed.stderr, stored.exists()) == (0, "", False)
