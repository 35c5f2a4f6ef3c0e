"""Containers of the built-in runtime on machines of other kinds: with crun, and with control groups read-only.

The mounts of such a machine are made in a mount namespace, in which a process of its own uses the runtime.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from harness.containerd import control_groups
from harness.cri.messages import NamespaceMode, Resources
from harness.cri.service import RuntimeServiceError
from tests.builtin_containers import Pod, leftovers, log_texts
from tests.cli import ROOT
from tests.markers import IMAGES

pytestmark = pytest.mark.sudo
by_oci_runtime = pytest.mark.parametrize(
    "make_pod", [pytest.param("image", marks=IMAGES)], indirect=True
)  # no image: no OCI runtime

_READ_ONLY = """
grep ' - cgroup' /proc/self/mountinfo | cut -d' ' -f5 | while read -r each; do mount -o remount,bind,ro "$each"; done
"""
# crun refuses machines that have both versions of control groups. It makes folders in the place of version 2, though.
_ONE_VERSION = """
if mountpoint -q /sys/fs/cgroup/unified; then
    umount /sys/fs/cgroup/unified && mount -t tmpfs tmpfs /sys/fs/cgroup/unified
fi
"""


@by_oci_runtime
def test_crun_takes_the_place_of_runc(pod: Pod) -> None:
    _elsewhere(_ONE_VERSION, "live_under_crun", pod)


def live_under_crun(pod: Pod) -> None:
    _only_crun(pod)
    container = pod.running("sh", "-c", "trap 'exit 3' USR1; hostname; while :; do sleep 0.1; done", tty=True)
    result = pod.containers.exec_sync(container, ["sh", "-c", "id -u; exit 4"], 0)
    with pytest.raises(TimeoutError):
        pod.containers.exec_sync(container, ["sleep", "1000"], 0.5)
    with pytest.raises(RuntimeServiceError, match="no-such-command"):
        pod.containers.exec_sync(container, ["no-such-command"], 0)
    pod.containers.stop_container(container, 600)

    assert (result.stdout, result.exit_code) == ("1000\n", 4)
    assert pod.containers.container_status(container).exit_code == 3
    assert log_texts(pod.log()) == ["in-pod"]
    pod.containers.remove_container(container)
    assert [each for each in leftovers(container) if "/unified/" not in each] == []


@by_oci_runtime
def test_a_missing_runtime_is_named(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    container = pod.container("true")
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(RuntimeServiceError, match="no OCI runtime: an image needs runc or crun"):
        pod.containers.start_container(container)


def test_containers_run_without_limits_if_control_groups_are_read_only(pod: Pod) -> None:
    _elsewhere(_READ_ONLY, "live_without_groups", pod)


@by_oci_runtime
def test_crun_runs_containers_if_control_groups_are_read_only(pod: Pod) -> None:
    _elsewhere(_ONE_VERSION + _READ_ONLY, "live_without_groups_under_crun", pod)


def test_exec_uses_the_callers_terminal(pod: Pod) -> None:
    pod.running("sleep", "1000")
    master, slave = os.openpty()

    _elsewhere("", "exec_with_terminal", pod, stream=slave)

    os.close(slave)
    output = b""
    with suppress(OSError):  # EIO: all that it has was read
        while piece := os.read(master, 65_536):
            output += piece
    os.close(master)
    assert output.split() == [b"terminal", b"xterm"]


def exec_with_terminal(pod: Pod) -> None:
    (container,) = pod.containers.list_containers()
    script = "test -t 0 && test -t 1 && test -t 2 && echo terminal; echo $TERM; exit 8"
    os.environ.pop("TERM", None)

    assert pod.containers.exec(container.id, ["sh", "-c", script], tty=True, stdin=True) == 8


def live_without_groups(pod: Pod) -> None:
    assert not control_groups.writable()

    texts = pod.output("sh", "-c", "echo $((1 + 1))", resources=Resources(memory_limit_in_bytes=64 << 20))
    lost = pod.running("sh", "-c", "sleep 1000 & sleep 1000", name="lost")
    shim, process = (
        json.loads((pod.folder / f"node/containers/{lost}/{name}.json").read_text())["pid"]
        for name in ("shim", "process")
    )
    os.kill(shim, signal.SIGKILL)

    assert texts == "2"
    assert pod.ended(lost).exit_code == 255
    assert not Path(f"/proc/{process}/cwd").exists()  # a zombie has none
    assert leftovers(lost) == []
    for container in pod.containers.list_containers():
        pod.containers.remove_container(container.id)
        assert leftovers(container.id) == []


def live_without_groups_under_crun(pod: Pod) -> None:
    _only_crun(pod)
    live_without_groups(pod)


def _only_crun(pod: Pod) -> None:
    """Leave no OCI runtime but crun on this process's PATH."""
    path = shutil.which("crun")
    assert path is not None
    own = pod.folder / "bin"
    own.mkdir()
    (own / "crun").symlink_to(path)
    os.environ["PATH"] = str(own)


def _elsewhere(mounts: str, function: str, pod: Pod, *, stream: int | None = None) -> None:
    """Call a function of this module with a second object of a pod, in a process that has mounts of its own."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from {__name__} import enter; enter(*sys.argv[1:])"
    words = [sys.executable, "-c", code, function, str(pod.folder), str(pod.pause_pid), pod.image]
    script = f'mount --make-rprivate /\n{mounts}\nexec "$@"'
    subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script, "sh", *words],
        check=True,
        stdin=stream,
        stdout=stream,
        stderr=stream,
    )


def enter(function: str, folder: str, pause: str, image: str) -> None:
    """Call one of the functions of this module."""
    globals()[function](Pod(Path(folder), int(pause), image=image, pid=NamespaceMode.CONTAINER))
