"""subPath: a container gets a file or folder of the volume, and nothing outside of it."""

import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.kubelet.paths import KubeletPaths
from harness.kubelet.requests.container_config import MountedVolume, MountSources, container_config
from harness.kubelet.requests.environment import EnvironmentSources
from harness.kubelet.status.start_errors import StartError
from harness.kubelet.volumes.manager import VolumeManager
from harness.kubelet.volumes.sub_paths import bound_sub_path, remove_sub_paths
from tests.unit.kubelet_objects import UID, pod

pytestmark = pytest.mark.sudo

_ROUNDS = 300
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    folder.chmod(0o2777)
    return folder


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[KubeletPaths]:
    made = KubeletPaths(tmp_path / "node")
    yield made
    remove_sub_paths(made.sub_paths(UID))


def source(paths: KubeletPaths, volume: Path, sub_path: str) -> Path:
    """The file or folder that the runtime is told to mount."""
    mounted = {"name": "v", "mountPath": "/mnt", "subPath": sub_path}
    of = pod([{"name": "c", "volumeMounts": [mounted]}])
    config = container_config(
        of,
        of.spec.containers[0],
        attempt=0,
        image=None,
        mounts=MountSources(
            {"v": MountedVolume(volume)}, Path("/hosts"), Path("/message"), lambda: True, paths.sub_paths(UID)
        ),
        sources=EnvironmentSources((), "", {"cpu": 1, "memory": 2**30}, lambda _: {}),  # type: ignore[dict-item]
    )
    return Path(next(each.host_path for each in config.mounts if each.container_path == "/mnt"))


def test_missing_folders_are_made_with_the_volumes_mode(paths: KubeletPaths, volume: Path) -> None:
    assert source(paths, volume, "a/b").samefile(volume / "a/b")
    assert [(volume / each).stat().st_mode & 0o7777 for each in ("a", "a/b")] == [0o2777, 0o2777]


def test_links_inside_of_the_volume_are_followed(paths: KubeletPaths, volume: Path) -> None:
    (volume / "..data").mkdir()
    (volume / "..data" / "key").write_text("text")
    (volume / "key").symlink_to("..data/key")
    (volume / "absolute").symlink_to(volume / "..data")

    assert source(paths, volume, "key").samefile(volume / "..data" / "key")
    assert source(paths, volume, "absolute/key").read_text() == "text"


@pytest.mark.parametrize("target", ["/", "..", "../elsewhere"])
def test_links_out_of_the_volume_are_refused(paths: KubeletPaths, volume: Path, target: str) -> None:
    (volume / "out").symlink_to(target)

    with pytest.raises(StartError, match="leaves volume") as raised:
        source(paths, volume, "out/made")

    assert raised.value.reason == "CreateContainerConfigError"
    assert not (volume.parent / "made").exists()
    assert not (volume.parent / "elsewhere").exists()


def test_path_through_a_file_is_a_fault_of_the_container(paths: KubeletPaths, volume: Path) -> None:
    (volume / "file").write_text("")

    with pytest.raises(StartError, match='failed to prepare subPath for volumeMount "v" of container "c"'):
        source(paths, volume, "file/below")


def test_sub_path_replaced_by_a_link_is_not_followed(paths: KubeletPaths, volume: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (volume / "a").mkdir()
    found = source(paths, volume, "a")

    (volume / "a").rmdir()
    (volume / "a").symlink_to(tmp_path / "secret")

    assert not found.samefile(tmp_path / "secret")


def test_a_container_that_swaps_folder_and_link_gets_nothing_else(volume: Path, tmp_path: Path) -> None:
    outside, target = tmp_path / "secret", tmp_path / "target/v/c/0"
    outside.mkdir()
    (volume / "a/b").mkdir(parents=True)
    (volume / "link").symlink_to(outside)
    (outside / "b").mkdir()
    over = threading.Event()
    swapper = threading.Thread(target=_swap, args=(volume, over))
    swapper.start()
    bound = 0
    try:
        for _ in range(_ROUNDS):
            try:
                found = bound_sub_path(volume, "a/b", "v", target)
            except (StartError, OSError):
                continue
            bound += 1
            assert not found.samefile(outside / "b")
    finally:
        over.set()
        swapper.join()
        remove_sub_paths(tmp_path / "target")
    assert bound


def test_the_end_of_the_volumes_leaves_their_files(paths: KubeletPaths, volume: Path) -> None:
    (volume / "folder").mkdir()
    (volume / "folder/file").write_text("kept")
    places = [source(paths, volume, sub_path) for sub_path in ("folder", "folder", "folder/file")]
    assert [each for each in _mounts() if str(paths.root) in each] == [str(places[0])]

    VolumeManager(paths, lambda _: {}).unmount(UID)

    assert (volume / "folder/file").read_text() == "kept"
    assert [each for each in _mounts() if str(paths.root) in each] == []
    assert not paths.sub_paths(UID).exists()
    VolumeManager(paths, lambda _: {}).unmount(UID)  # once more is fine


def _swap(volume: Path, over: threading.Event) -> None:
    """Exchange a folder and a link without pause, as a container could (renameat2(2))."""
    libc = ctypes.CDLL(None)
    a, link = os.fsencode(volume / "a"), os.fsencode(volume / "link")
    while not over.is_set():
        libc.renameat2(_AT_FDCWD, a, _AT_FDCWD, link, _RENAME_EXCHANGE)


def _mounts() -> list[str]:
    listed = subprocess.run(["cat", "/proc/self/mountinfo"], check=True, capture_output=True, text=True).stdout
    return [line.split()[4] for line in listed.splitlines()]
