"""What containers of the built-in runtime have mounted: volumes of images, and read-only mounts with others below."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.cri.messages import ContainerSecurity, Mount
from tests.builtin_containers import Pod
from tests.markers import IMAGES

pytestmark = pytest.mark.sudo
with_image = pytest.mark.parametrize("make_pod", [pytest.param("image", marks=IMAGES)], indirect=True)
without_image = pytest.mark.parametrize("make_pod", ["node-files"], indirect=True)

_ROOT = ContainerSecurity(run_as_user=0)


@without_image
def test_the_memory_of_other_pods_is_not_kept(pod: Pod) -> None:
    other = pod.folder / "node/pods/default_other_0123/shm"
    with _tmpfs(other):
        first_process = _first_process(pod, pod.running("sleep", "1000"))
        mounted = (Path("/proc") / str(first_process) / "mountinfo").read_text()
    other.rmdir()

    mounts = (Path("/proc") / str(first_process) / "mountinfo").read_text()

    assert str(other) not in mounted
    assert str(other) not in mounts


@pytest.mark.parametrize(("recursive", "written"), [(False, "top: 1, below: 0"), (True, "top: 1, below: 1")])
def test_mounts_below_a_read_only_one(pod: Pod, tmp_path: Path, recursive: bool, written: str) -> None:  # noqa: FBT001
    volume = tmp_path / "volume"
    with _tmpfs(volume / "below"):
        mount = Mount(container_path="/r2-volume", host_path=str(volume), readonly=True, recursive_read_only=recursive)
        script = "cd /r2-volume; touch x 2>/dev/null; a=$?; touch below/x 2>/dev/null; echo top: $a, below: $?"

        assert pod.output("sh", "-c", script, mounts=[mount], security=_ROOT) == written
        assert (volume / "below/x").exists() is not recursive


@without_image  # runc takes them away, under containerd too
def test_a_read_only_mount_keeps_its_other_flags(pod: Pod, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    with _tmpfs(volume, "noexec,nosuid,nodev"):
        mount = Mount(container_path="/r2-volume", host_path=str(volume), readonly=True)

        [line] = [
            line
            for line in pod.output("cat", "/proc/self/mountinfo", mounts=[mount]).splitlines()
            if line.split()[4] == "/r2-volume"
        ]

    assert {"ro", "noexec", "nosuid", "nodev"} <= set(line.split()[5].split(","))


@with_image
def test_a_volume_of_the_image_begins_with_its_files(pod: Pod) -> None:
    script = """
        cat declared/below/file linked/file
        stat -c %u:%g:%a declared/below/file; stat -c %u:%g declared; stat -c %n absent
        echo changed > declared/below/file && cat declared/below/file
        echo on disk > declared/new && test ! -e linked/new && echo apart
    """

    texts = pod.output("sh", "-c", script)

    own = ["of the image", "of the image", "1000:1001:600", "1000:1001", "absent", "changed", "apart"]
    assert own == texts.splitlines()
    assert pod.output("cat", "declared/below/file", name="second") == "of the image"


@with_image
def test_volumes_of_the_image_are_mounts_that_end_with_the_container(pod: Pod) -> None:
    container = pod.running("sleep", "1000", security=ContainerSecurity(run_as_user=0, readonly_rootfs=True))
    answer = pod.containers.exec_sync(container, ["touch", "/absent/written"], 0)
    found = list((pod.folder / "node").rglob("written"))

    pod.containers.remove_container(container)

    assert (answer.exit_code, len(found)) == (0, 1)
    assert not found[0].exists()


@with_image
def test_a_requested_mount_takes_the_place_of_the_images_volume(pod: Pod, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("of the node")
    mount = Mount(container_path="/declared/", host_path=str(tmp_path / "mine"))

    assert pod.output("cat", "/declared/file", mounts=[mount]) == "of the node"


@contextmanager
def _tmpfs(path: Path, options: str = "mode=777") -> Iterator[None]:
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def _first_process(pod: Pod, container: str) -> int:
    process = pod.containers._store.folder_of(container).process()
    assert process is not None
    os.kill(process.pid, 0)
    return process.pid
