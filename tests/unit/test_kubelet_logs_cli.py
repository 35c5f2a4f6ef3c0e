"""`logs` of pods on record: files of the Container Runtime Interface's format, without a kubelet."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from api.status import V1PodStatus
from harness.kubelet.paths import KubeletPaths
from harness.kubelet.pod_records import PodRecords
from tests.cli import ROOT
from tests.unit.kubelet_objects import UID, pod

pytestmark = pytest.mark.sudo

RUNNING = {"running": {"startedAt": "2027-01-15T08:00:00Z"}}
ENDED = {"terminated": {"exitCode": 1, "reason": "Error"}}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    of = pod(["c"])
    PodRecords(KubeletPaths(tmp_path)).add(of)
    path = KubeletPaths(tmp_path).log(of, of.spec.containers[0], 0)
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"2027-01-15T08:00:00Z stdout F {number}\n" for number in (1, 2, 3)))
    return path


def tell(folder: Path, state: Mapping[str, object], *, attempt: int = 0) -> None:
    status = {"name": "c", "state": state, "restartCount": attempt, "ready": False, "image": "", "imageID": ""}
    PodRecords(KubeletPaths(folder)).set_status(UID, V1PodStatus.decode({"containerStatuses": [status]}))


def logs(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    words = ["logs", "--state-dir", str(folder), "foo", "--namespace", "new", *arguments]
    command = [sys.executable, "-m", "harness.cli.main", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("tail", "said"), [("0", ""), ("2", "2\n3\n"), ("3", "1\n2\n3\n"), ("4", "1\n2\n3\n")])
def test_tail_is_the_last_lines(log: Path, tmp_path: Path, tail: str, said: str) -> None:
    assert log.exists()
    with logs(tmp_path, "--tail", tail) as process:
        assert process.communicate(timeout=30)[0] == said


def restart(log: Path, folder: Path) -> None:
    tell(folder, RUNNING, attempt=1)
    log.with_name("1.log").write_text("")


def end(log: Path, folder: Path) -> None:
    assert log.exists()
    tell(folder, ENDED)


@pytest.mark.parametrize("change", [restart, end])
def test_following_ends_with_the_attempt(log: Path, tmp_path: Path, change: Callable[[Path, Path], None]) -> None:
    tell(tmp_path, RUNNING)
    with log.open("a") as file:
        file.write("2027-01-15T08:00:01Z stdout F half")
    with logs(tmp_path, "-f") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["1\n", "2\n", "3\n"]
        with log.open("a") as file:
            file.write(" and half\n")
        assert process.stdout.readline() == "half and half\n"
        assert process.poll() is None

        change(log, tmp_path)

        assert process.communicate(timeout=30)[0] == ""
        assert process.returncode == 0
