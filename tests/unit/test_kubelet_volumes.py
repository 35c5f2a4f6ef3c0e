"""Volumes of pods: files that change as a whole, folders, and paths of the node."""

import ctypes
import errno
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from api.pod import V1ConfigMap
from fast_stdlib import syscalls
from harness.kubelet.paths import KubeletPaths
from harness.kubelet.volumes.files import Projection, own_by_group, write_atomically_into
from harness.kubelet.volumes.manager import VolumeError, VolumeManager
from tests.unit.kubelet_objects import UID, pod

MAP = V1ConfigMap.decode(
    {"metadata": {"name": "settings", "namespace": "new"}, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "Aw=="}}
)


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and mode of each visible file below a folder."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not str(path.relative_to(folder)).startswith("..")
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def manager(tmp_path: Path, config_map: V1ConfigMap | None = MAP) -> VolumeManager:
    known = {("new", "settings"): config_map} if config_map is not None else {}
    return VolumeManager(KubeletPaths(tmp_path), lambda _: known)


def test_files_are_written_replaced_and_removed(tmp_path: Path) -> None:
    first = {"a": Projection(b"1", 0o640), "sub/b": Projection(b"2", 0o600)}
    assert write_atomically_into(tmp_path, first)
    assert files(tmp_path)["a"] == (b"1", 0o640)
    assert (tmp_path / "sub/b").read_bytes() == b"2"
    behind = (tmp_path / "..data").readlink()

    assert not write_atomically_into(tmp_path, first)
    assert (tmp_path / "..data").readlink() == behind

    assert write_atomically_into(tmp_path, {"a": Projection(b"3", 0o644)})
    assert files(tmp_path) == {"a": (b"3", 0o644)}
    assert names(tmp_path) == sorted(["..data", str((tmp_path / "..data").readlink()), "a"])


def test_an_open_file_keeps_its_content(tmp_path: Path) -> None:
    write_atomically_into(tmp_path, {"a": Projection(b"old", 0o644)})
    with (tmp_path / "a").open() as file:
        write_atomically_into(tmp_path, {"a": Projection(b"new", 0o644)})

        assert file.read() == "old"
    assert (tmp_path / "a").read_text() == "new"


def test_a_write_that_was_cut_off_is_completed(tmp_path: Path) -> None:
    write_atomically_into(tmp_path, {"a": Projection(b"1", 0o644)})
    (tmp_path / "..2026_01_01_00_00_00.1").mkdir()
    (tmp_path / "..data_tmp").symlink_to("..2026_01_01_00_00_00.1")
    (tmp_path / "a").unlink()

    write_atomically_into(tmp_path, {"a": Projection(b"1", 0o644)})
    assert (tmp_path / "a").read_bytes() == b"1"
    write_atomically_into(tmp_path, {"a": Projection(b"2", 0o644)})

    assert names(tmp_path) == sorted(["..data", str((tmp_path / "..data").readlink()), "a"])


def test_the_largest_file_is_written_again_after_something_was_appended(tmp_path: Path) -> None:
    largest = {"a": Projection(b"1" * 2**20, 0o644)}
    write_atomically_into(tmp_path, largest)
    with (tmp_path / "a").open("ab") as file:
        file.write(b"2")

    assert write_atomically_into(tmp_path, largest)
    assert files(tmp_path) == largest


def test_an_empty_dir_is_for_every_user_and_goes_with_the_pod(tmp_path: Path) -> None:
    volumes = manager(tmp_path)

    found = volumes.mount(pod(volumes=[{"name": "data", "emptyDir": {}}, {"name": "other"}]))

    path = found["data"].path
    assert path == tmp_path / f"kubelet/pods/{UID}/volumes/kubernetes.io~empty-dir/data"
    assert path.stat().st_mode & 0o777 == 0o777
    assert found["other"].path.is_dir()
    volumes.unmount(UID)
    volumes.unmount(UID)
    assert not path.parent.parent.exists()


def test_a_config_map_is_files(tmp_path: Path) -> None:
    volume = {"name": "map", "configMap": {"name": "settings", "defaultMode": 0o600}}

    mounted = manager(tmp_path).mount(pod(volumes=[volume]))["map"]

    assert mounted.readonly
    assert files(mounted.path) == {"a": (b"1", 0o600), "b": (b"2", 0o600), "c": (b"\x03", 0o600)}


def test_items_of_a_config_map_have_paths_and_modes(tmp_path: Path) -> None:
    items = [{"key": "a", "path": "deep/er", "mode": 0o400}, {"key": "b", "path": "b"}]
    volume = {"name": "map", "configMap": {"name": "settings", "items": items}}

    mounted = manager(tmp_path).mount(pod(volumes=[volume]))["map"]

    assert names(mounted.path)[-2:] == ["b", "deep"]
    assert (mounted.path / "deep/er").read_bytes() == b"1"
    assert (mounted.path / "deep/er").stat().st_mode & 0o777 == 0o400
    assert not (mounted.path / "a").exists()


@pytest.mark.parametrize(
    ("config_map", "words"),
    [
        ({"name": "none"}, 'MountVolume.SetUp failed for volume "map" : configmap "none" not found'),
        ({"name": "settings", "items": [{"key": "x", "path": "x"}]}, "configmap references non-existent config key: x"),
    ],
)
def test_missing_config_map_or_key_is_named_unless_optional(
    tmp_path: Path, config_map: dict[str, object], words: str
) -> None:
    with pytest.raises(VolumeError, match=words):
        manager(tmp_path).mount(pod(volumes=[{"name": "map", "configMap": config_map}]))

    mounted = manager(tmp_path).mount(pod(volumes=[{"name": "map", "configMap": {**config_map, "optional": True}}]))
    assert files(mounted["map"].path) == {}


def _file(path: Path) -> None:
    path.write_text("precious")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


@pytest.mark.parametrize(
    ("type", "make", "words"),
    [
        ("Directory", Path.mkdir, ""),
        ("Directory", _file, "is not a directory"),
        ("Directory", None, "is not a directory"),
        ("DirectoryOrCreate", None, ""),
        ("DirectoryOrCreate", _file, "File exists"),
        ("File", _file, ""),
        ("File", Path.mkdir, "is not a file"),
        ("FileOrCreate", None, ""),
        ("Socket", _socket, ""),
        ("Socket", _file, "is not a socket file"),
        ("CharDevice", _file, "is not a character device"),
        ("BlockDevice", _file, "is not a block device"),
        ("", None, ""),
    ],
)
def test_a_path_of_the_node_has_the_type_that_is_asked_for(
    tmp_path: Path, type: str, make: Callable[[Path], object] | None, words: str
) -> None:
    path = tmp_path / "it"
    if make is not None:
        make(path)
    described = pod(volumes=[{"name": "host", "hostPath": {"path": str(path), "type": type}}])

    if words:
        with pytest.raises(VolumeError, match=words):
            manager(tmp_path / "state").mount(described)
    else:
        volumes = manager(tmp_path / "state")
        assert volumes.mount(described)["host"].path == path
        existed = path.exists()
        volumes.unmount(UID)
        assert path.exists() is existed
        assert existed is (make is not None or type.endswith("OrCreate"))


def test_volume_with_thousands_of_levels_goes_with_its_pod(tmp_path: Path) -> None:
    volumes = manager(tmp_path)
    here = os.open(volumes.mount(pod(volumes=[{"name": "data", "emptyDir": {}}]))["data"].path, os.O_PATH)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_PATH, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    try:
        volumes.unmount(UID)

        assert not (tmp_path / f"kubelet/pods/{UID}/volumes").exists()
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "kubelet"], check=True)  # pytest cannot remove it


GROUP = 4711


def _empty_dirs(tmp_path: Path, *, group: int | None = GROUP) -> tuple[VolumeManager, Callable[[], Path]]:
    described = pod(volumes=[{"name": "data", "emptyDir": {}}], securityContext={"fsGroup": group} if group else {})
    volumes = manager(tmp_path)
    return volumes, lambda: volumes.mount(described)["data"].path


@pytest.mark.sudo
def test_empty_dir_is_its_groups_and_stays_so_at_the_next_sync(tmp_path: Path) -> None:
    volumes, mount = _empty_dirs(tmp_path)

    first = [(mount().stat().st_mode & 0o7777, mount().stat().st_gid) for _ in range(2)]

    assert first == [(0o2777, GROUP)] * 2
    volumes.unmount(UID)
    assert not (tmp_path / f"kubelet/pods/{UID}/plugins").exists()


@pytest.mark.sudo
def test_later_sync_changes_nothing_that_a_container_has_put_there(tmp_path: Path) -> None:
    _, mount = _empty_dirs(tmp_path)
    folder = mount()
    (folder / "file").write_text("")
    os.chown(folder / "file", 5, 6)
    os.chown(folder, 5, 6)
    folder.chmod(0o700)

    mount()

    assert [(each.stat().st_uid, each.stat().st_gid) for each in (folder, folder / "file")] == [(5, 6), (5, 6)]
    assert folder.stat().st_mode & 0o7777 == 0o700


@pytest.mark.sudo
def test_empty_dir_that_a_crash_left_unready_is_completed(tmp_path: Path) -> None:
    _, mount = _empty_dirs(tmp_path)
    folder = tmp_path / f"kubelet/pods/{UID}/volumes/kubernetes.io~empty-dir/data"
    folder.mkdir(parents=True)

    assert mount() == folder
    assert (folder.stat().st_mode & 0o7777, folder.stat().st_gid) == (0o2777, GROUP)


@pytest.mark.sudo
def test_files_of_a_config_map_are_for_the_group_to_read(tmp_path: Path) -> None:
    volume = {"name": "map", "configMap": {"name": "settings", "items": [{"key": "a", "path": "sub/a", "mode": 0o400}]}}
    described = pod(volumes=[volume], securityContext={"fsGroup": GROUP})
    volumes = manager(tmp_path)

    folder = volumes.mount(described)["map"].path
    behind = (folder / "..data").readlink()
    volumes.mount(described)

    assert (folder / "..data").readlink() == behind
    found = {
        name: ((folder / name).stat().st_mode & 0o7777, (folder / name).stat().st_gid) for name in (".", "sub", "sub/a")
    }
    assert found == {".": (0o2755, GROUP), "sub": (0o2755, GROUP), "sub/a": (0o440, GROUP)}


@pytest.mark.sudo
def test_group_of_a_volume_is_no_links_target(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("")
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "link").symlink_to(outside)
    os.mkfifo(volume / "fifo")

    own_by_group(volume, GROUP)

    assert [each.stat().st_gid for each in (outside, outside / "file")] == [0, 0]
    assert {each.name: each.lstat().st_gid for each in volume.iterdir()} == {"link": GROUP, "fifo": GROUP}


@pytest.mark.sudo
def test_container_that_swaps_names_gives_no_file_of_the_node_away(tmp_path: Path) -> None:
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    for folder in (outside, volume / "a"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("")
    (volume / "link").symlink_to(outside)
    over = threading.Event()
    swapper = threading.Thread(target=_swap, args=(volume, over))
    swapper.start()
    try:
        for _ in range(2000):
            own_by_group(volume, GROUP)
            assert (outside.stat().st_gid, (outside / "file").stat().st_gid) == (0, 0)
    finally:
        over.set()
        swapper.join()


def _swap(volume: Path, over: threading.Event) -> None:
    """Exchange a folder and a link without pause, as a container could (renameat2(2), RENAME_EXCHANGE)."""
    libc = ctypes.CDLL(None)
    a, link = os.fsencode(volume / "a"), os.fsencode(volume / "link")
    while not over.is_set():
        libc.renameat2(-100, a, -100, link, 2)


@pytest.mark.sudo
@pytest.mark.parametrize("is_old", [False, True])
def test_memory_is_for_all_sticky_and_without_swap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_old: bool
) -> None:
    mount = syscalls.mount

    def of_an_old_kernel(source: str, target: str, flags: int, filesystem: str = "none", options: str = "") -> None:
        if is_old and "noswap" in options:
            raise OSError(errno.EINVAL, "Invalid argument", target)
        mount(source, target, flags, filesystem, options)

    monkeypatch.setattr(syscalls, "mount", of_an_old_kernel)
    volumes = manager(tmp_path)
    described = pod(volumes=[{"name": "data", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}])
    folder = volumes.mount(described)["data"].path
    try:
        volumes.mount(described)
        [line] = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {folder} " in line]

        assert folder.stat().st_mode & 0o7777 == 0o1777
        assert line.split(" - ")[1].startswith("tmpfs tmpfs rw,size=1024k")
        assert ("noswap" in line) is not is_old
    finally:
        volumes.unmount(UID)
    assert not folder.exists()
