"""subPath: a container gets a file or folder of the volume, and nothing outside of it."""

from pathlib import Path

import pytest

from harness.cri.messages import Mount
from harness.kubelet.container_config import container_config
from harness.kubelet.container_mounts import MountSources
from harness.kubelet.environment import EnvironmentSources
from harness.kubelet.mounted_volume import MountedVolume
from harness.kubelet.start_error import StartError
from tests.unit.kubelet_objects import pod


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    folder.chmod(0o2777)
    return folder


def mount(volume: Path, sub_path: str) -> Mount:
    mounted = {"name": "v", "mountPath": "/mnt", "subPath": sub_path}
    of = pod([{"name": "c", "volumeMounts": [mounted]}])
    config = container_config(
        of,
        of.spec.containers[0],
        attempt=0,
        image=None,
        mounts=MountSources(
            {"v": MountedVolume(volume)}, volume.parent / "hosts", volume.parent / "message", lambda: True
        ),
        sources=EnvironmentSources((), "", {"cpu": 1, "memory": 2**30}, dict),  # type: ignore[dict-item]
    )
    return next(each for each in config.mounts if each.container_path == "/mnt")


def test_missing_folders_are_made_with_the_volumes_mode(volume: Path) -> None:
    assert mount(volume, "a/b").host_path == str(volume / "a/b")
    assert [(volume / each).stat().st_mode & 0o7777 for each in ("a", "a/b")] == [0o2777, 0o2777]


def test_links_inside_of_the_volume_are_followed(volume: Path) -> None:
    (volume / "..data").mkdir()
    (volume / "..data" / "key").write_text("text")
    (volume / "key").symlink_to("..data/key")

    assert mount(volume, "key").host_path == str(volume / "..data" / "key")


@pytest.mark.parametrize("target", ["/", "..", "../elsewhere"])
def test_links_out_of_the_volume_are_refused(volume: Path, target: str) -> None:
    (volume / "out").symlink_to(target)

    with pytest.raises(StartError, match="leaves volume") as raised:
        mount(volume, "out/made")

    assert raised.value.reason == "CreateContainerConfigError"
    assert not (volume.parent / "made").exists()
    assert not (volume.parent / "elsewhere").exists()


def test_path_through_a_file_is_a_fault_of_the_container(volume: Path) -> None:
    (volume / "file").write_text("")

    with pytest.raises(StartError, match='failed to prepare subPath for volumeMount "v" of container "c"'):
        mount(volume, "file/below")
