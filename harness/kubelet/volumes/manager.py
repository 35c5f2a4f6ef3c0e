"""Makes the volumes of a pod ready before its containers start, and takes them down after their end.

An emptyDir is a folder of the node, or a file system in memory (Kubernetes' pkg/volume/emptydir). It is set up once,
before the first container: later a container could have put anything into it. A file `ready` outside of the volume says
that it is set up, as with kubelet.
"""

import errno
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from api.pod import V1ConfigMapVolume, V1EmptyDirVolume, V1HostPathVolume, V1Pod, V1Volume
from api.quantity import quantity_value
from fast_stdlib import syscalls
from harness.files import remove_tree
from harness.kubelet.paths import KubeletPaths
from harness.kubelet.pod_records import ConfigMaps
from harness.kubelet.requests.container_config import MountedVolume
from harness.kubelet.volumes.files import Projection, own_by_group, write_atomically_into
from harness.kubelet.volumes.sub_paths import remove_sub_paths
from harness.mounts import detach_below

_CHECKS: Final[Mapping[str, tuple[Callable[[int], bool], str]]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}
_DEFAULT_MODE: Final = 0o644

_MEMORY: Final = "Memory"


class VolumeError(Exception):
    """A volume of a pod is not there; the text has kubelet's words."""


class VolumeManager:
    """Volumes of the kinds emptyDir, hostPath and configMap; `config_maps` returns those of a pod, by its UID."""

    def __init__(self, paths: KubeletPaths, config_maps: ConfigMaps) -> None:
        self._paths = paths
        self._config_maps = config_maps

    def mount(self, pod: V1Pod) -> Mapping[str, MountedVolume]:
        """Return the volumes by name; a repetition completes what a crash left. Raises VolumeError."""
        mounted = {}
        # It stays: pods come and go at once, and one could remove it while another makes its own below.
        self._paths.sub_paths(pod.metadata.uid).parent.mkdir(parents=True, exist_ok=True)
        for volume in pod.spec.volumes:
            try:
                mounted[volume.name] = self._mount(pod, volume)
            except (OSError, VolumeError) as error:
                told = f'MountVolume.SetUp failed for volume "{volume.name}" : {error}'
                raise VolumeError(told) from error
        return mounted

    def unmount(self, uid: str) -> None:
        """Take down the volumes of a pod; the files of hostPath stay. Raises OSError."""
        remove_sub_paths(self._paths.sub_paths(uid))
        pod = self._paths.pod(uid)
        detach_below(pod / "volumes")
        for folder in (pod / "plugins", pod / "volumes"):
            if folder.is_dir():
                remove_tree(folder)

    def _mount(self, pod: V1Pod, volume: V1Volume) -> MountedVolume:
        if volume.host_path is not None:
            return MountedVolume(_host_path(volume.host_path))
        group = pod.spec.security_context.fs_group
        if volume.config_map is not None:
            folder = self._paths.volume(pod.metadata.uid, "config_map", volume.name)
            files = self._files_of(volume.config_map, pod)
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            write_atomically_into(folder, files, group)
            return MountedVolume(folder, readonly=True)
        folder = self._paths.volume(pod.metadata.uid, "empty_dir", volume.name)
        set_up_empty_dir(
            folder,
            volume.empty_dir or V1EmptyDirVolume(),
            self._paths.ready_file(pod.metadata.uid, volume.name),
            group=group,
            is_private=not _is_propagated(pod, volume.name),
        )
        return MountedVolume(folder)

    def _files_of(self, volume: V1ConfigMapVolume, pod: V1Pod) -> dict[str, Projection]:
        config_map = self._config_maps(pod.metadata.uid).get((pod.metadata.namespace, volume.name))
        if config_map is None:
            if volume.optional:
                return {}
            raise VolumeError(f'configmap "{volume.name}" not found')
        contents = config_map.files()
        mode = _DEFAULT_MODE if volume.default_mode is None else volume.default_mode
        if not volume.items:
            return {key: Projection(content, mode) for key, content in contents.items()}
        files = {}
        for item in volume.items:
            if item.key in contents:
                files[item.path] = Projection(contents[item.key], mode if item.mode is None else item.mode)
            elif not volume.optional:
                raise VolumeError(f"configmap references non-existent config key: {item.key}")
        return files


def _is_propagated(pod: V1Pod, volume: str) -> bool:
    """Tell whether a container shares its mounts below a volume with the node, in either direction."""
    mounts = [
        mount for container in pod.spec.all_containers() for mount in container.volume_mounts if mount.name == volume
    ]
    return any(mount.mount_propagation not in {"", "None"} for mount in mounts)


def _host_path(volume: V1HostPathVolume) -> Path:
    """Return the path after the checks of its type. Raises VolumeError, OSError."""
    path = Path(volume.path)
    kind = volume.type.removesuffix("OrCreate")
    if volume.type == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif volume.type == "FileOrCreate" and not path.exists():
        with suppress(FileExistsError):  # made since, by another program: a FIFO would block
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    if kind in _CHECKS:
        is_kind, words = _CHECKS[kind]
        if not path.exists() or not is_kind(path.stat().st_mode):
            raise VolumeError(f"hostPath type check failed: {path} is not {words}")
    return path


def set_up_empty_dir(
    folder: Path, volume: V1EmptyDirVolume, ready: Path, *, group: int | None, is_private: bool
) -> None:
    """Make a volume unless it is made: for all users, or with fsGroup for its `group`, too. Raises OSError.

    `ready` is a file for the note that it is made. With `is_private`, no mount below a volume in memory is passed on.
    """
    is_there = os.path.ismount(folder) if volume.medium == _MEMORY else folder.is_dir()
    if is_there and ready.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    if volume.medium == _MEMORY and not is_there:
        _mount_memory(folder, volume.size_limit)
        if is_private:
            syscalls.mount("", str(folder), syscalls.MS_PRIVATE)
    if group is not None:
        own_by_group(folder, group)
    ready.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    ready.touch(0o640)


def _mount_memory(folder: Path, limit: str) -> None:
    """Mount a tmpfs, of mode 1777, whose pages are never written to swap space, if the kernel can promise that."""
    size = [f"size={quantity_value(limit)}"] if limit else []
    try:
        syscalls.mount("tmpfs", str(folder), 0, "tmpfs", ",".join([*size, "noswap"]))
    except OSError as error:
        if error.errno != errno.EINVAL:  # EINVAL: before Linux 6.3, or in a user namespace
            raise
        syscalls.mount("tmpfs", str(folder), 0, "tmpfs", ",".join(size))
