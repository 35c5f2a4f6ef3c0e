"""Volumes of pods: files that change as a whole, folders, and paths of the node."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.kubelet.paths import KubeletPaths
from harness.kubelet.pod_sync import VolumeError
from harness.kubelet.v1 import V1ConfigMap
from harness.kubelet.volumes.atomic_writer import Projection, write_atomically_into
from harness.kubelet.volumes.manager import VolumeManager
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
def test_what_a_config_map_lacks_is_named_unless_it_is_optional(
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
