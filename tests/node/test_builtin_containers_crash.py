"""Containers of the built-in runtime outlive the program that started them, and end when their shim is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.cri.service import RuntimeServiceError
from tests.builtin_containers import Pod, leftovers, log_texts
from tests.cli import ROOT
from tests.nodes import until

pytestmark = pytest.mark.sudo

_STARTER = """
import json, sys
from pathlib import Path
from harness.containerd.containers import Containers
from harness.containerd.images import Images
from harness.containerd.sandbox_record import SandboxView
from harness.cri.messages import PodSandboxConfig

node, files, config, pause, container = sys.argv[1:]
sandbox = SandboxView("sandbox1", PodSandboxConfig.decode(json.loads(config)), int(pause), Path(files))
containers = Containers(Path(node), Images(Path(node)), lambda _: sandbox)
print("ready", flush=True)
containers.start_container(container)
print("started", flush=True)
sys.stdin.read()
"""


def test_a_container_outlives_the_program_that_started_it(pod: Pod) -> None:
    container = pod.container(
        "sh", "-c", "trap 'exit 6' TERM USR1; i=0; while :; do echo $((i += 1)); sleep 0.05; done"
    )
    with _starter(pod, container) as starter:
        assert [starter.stdout.readline(), starter.stdout.readline()] == ["ready\n", "started\n"]  # type: ignore[union-attr]
        starter.kill()
    lines = len(pod.log())

    pod.reopen()

    assert pod.containers.container_status(container).state == "CONTAINER_RUNNING"
    until(lambda: len(pod.log()) > lines + 5)
    pod.containers.stop_container(container, 600)
    assert pod.containers.container_status(container).exit_code == 6
    texts = log_texts(pod.log())
    assert [str(number + 1) for number in range(len(texts))] == texts


@pytest.mark.mostly_slow(4, "each step; a part is in make test")
@pytest.mark.parametrize("milliseconds", [0, 5, 10, 20, 30, 40, 60, 80, 100, 130, 160, 200])
def test_a_start_that_is_killed_leaves_a_container_that_can_be_removed(pod: Pod, milliseconds: int) -> None:
    container = pod.container("sleep", "1000")
    with _starter(pod, container) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "ready\n"
        time.sleep(milliseconds / 1000)
        starter.kill()

    pod.reopen().recover()
    state = pod.containers.container_status(container).state
    assert state in {"CONTAINER_CREATED", "CONTAINER_RUNNING", "CONTAINER_EXITED"}
    pod.containers.remove_container(container)

    assert leftovers(container) == []
    assert list((pod.folder / "node/containers").iterdir()) == []


def test_container_with_a_killed_shim_has_ended(pod: Pod) -> None:
    container = pod.running("sh", "-c", "sleep 1000 & sleep 1000")
    process = _pid_of(pod, container, "process")

    os.kill(_pid_of(pod, container, "shim"), signal.SIGKILL)
    status = pod.ended(container)

    assert (status.exit_code, status.reason) == (255, "Unknown")
    assert status.finished_at >= status.started_at > 0
    assert not Path(f"/proc/{process}/cwd").exists()  # a zombie has none
    with pytest.raises(RuntimeServiceError, match="container is in CONTAINER_EXITED state"):
        pod.containers.exec_sync(container, ["true"], 0)
    pod.containers.remove_container(container)
    assert leftovers(container) == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_a_shim_survives_signals(pod: Pod, number: signal.Signals) -> None:
    container = pod.running("sleep", "1000")
    shim = _pid_of(pod, container, "shim")

    for _ in range(3):
        os.kill(shim, number)
    pod.containers.stop_container(container, 0)

    status = pod.containers.container_status(container)
    assert (status.exit_code, status.reason) == (137, "Error")


def test_signals_that_the_caller_ignores_reach_the_container(pod: Pod) -> None:
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        container = pod.running("sleep", "1000")
    finally:
        signal.signal(signal.SIGUSR2, before)

    status = Path(f"/proc/{_pid_of(pod, container, 'process')}/status").read_text()

    (ignored,) = [line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")]
    assert not int(ignored, 16) >> signal.SIGUSR2 - 1 & 1


def test_recover_removes_leftovers_of_a_crash(pod: Pod) -> None:
    kept = pod.container("true")
    folder = pod.folder / "node/containers"
    for name in (".new-abc", ".removed-def", "0123"):
        (folder / name / "upper").mkdir(parents=True)
    (folder / "0123/record.json").write_text("{")

    pod.containers.recover()

    assert [kept] == [path.name for path in folder.iterdir()]


def test_one_of_two_starts_wins(pod: Pod) -> None:
    container = pod.container("sleep", "1000")
    with _starter(pod, container) as one, _starter(pod, container) as two:
        outputs = [each.communicate()[0] for each in (one, two)]

    assert sorted(outputs) == ["ready\n", "ready\nstarted\n"]
    assert pod.containers.container_status(container).state == "CONTAINER_RUNNING"


def _starter(pod: Pod, container: str) -> subprocess.Popen[str]:
    config = json.dumps(pod.config.encode())
    words = [str(pod.folder / "node"), str(pod.files), config, str(pod.pause_pid), container]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", _STARTER, *words],
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )


def _pid_of(pod: Pod, container: str, name: str) -> int:
    document = json.loads((pod.folder / f"node/containers/{container}/{name}.json").read_text())
    return int(document["pid"])
