"""The mounts of a container: volumes, /etc/hosts, the file for its termination message (kubelet's makeMounts)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from harness.cri.messages import Mount
from harness.kubelet.environment import expanded
from harness.kubelet.mounted_volume import MountedVolume
from harness.kubelet.start_error import StartError
from harness.kubelet.sub_paths import bound_sub_path
from harness.kubelet.v1_container import V1Container, V1VolumeMount

_HOSTS: Final = "/etc/hosts"
_PROPAGATIONS: Final = {"": "private", "None": "private", "HostToContainer": "rslave", "Bidirectional": "rshared"}


class MountSources(NamedTuple):
    """The volumes of the pod by name, and the files that kubelet makes for a container.

    `makes_recursive_read_only` asks the runtime (RuntimeService), and is called if a mount wants that. `sub_paths` is
    the pod's folder for mounts of subPath.
    """

    volumes: Mapping[str, MountedVolume]
    hosts: Path
    message: Path
    makes_recursive_read_only: Callable[[], bool]
    sub_paths: Path


def container_mounts(container: V1Container, sources: MountSources, values: Mapping[str, str]) -> list[Mount]:
    """Return the mounts of a container; `values` are its environment. Raises StartError."""
    mounts = [_of_volume(container, number, sources, values) for number in range(len(container.volume_mounts))]
    if not any(mount.container_path == _HOSTS for mount in mounts):
        mounts.append(Mount(container_path=_HOSTS, host_path=str(sources.hosts)))
    if container.termination_message_path:
        mounts.append(Mount(container_path=container.termination_message_path, host_path=str(sources.message)))
    return mounts


def _of_volume(container: V1Container, number: int, sources: MountSources, values: Mapping[str, str]) -> Mount:
    mount = container.volume_mounts[number]
    volume = sources.volumes.get(mount.name)
    if volume is None:
        message = f'cannot find volume "{mount.name}" to mount into container "{container.name}"'
        raise StartError("CreateContainerConfigError", message)
    sub_path = mount.sub_path or expanded(mount.sub_path_expr, values)
    target = sources.sub_paths / mount.name / container.name / str(number)
    propagation = _PROPAGATIONS[mount.mount_propagation]
    try:
        source = bound_sub_path(volume.path, sub_path, mount.name, target, propagation) if sub_path else volume.path
    except OSError as error:
        message = f'failed to prepare subPath for volumeMount "{mount.name}" of container "{container.name}": {error}'
        raise StartError("CreateContainerConfigError", message) from error
    return Mount(
        container_path=mount.mount_path,
        host_path=str(source),
        readonly=mount.read_only or volume.readonly,
        propagation=propagation,
        recursive_read_only=_is_recursive(mount, sources.makes_recursive_read_only),
    )


def _is_recursive(mount: V1VolumeMount, makes_recursive_read_only: Callable[[], bool]) -> bool:
    """Tell whether the mounts below a mount are read-only, too (resolveRecursiveReadOnly). Raises StartError."""
    if mount.recursive_read_only in {"", "Disabled"}:
        return False
    if makes_recursive_read_only():
        return True
    if mount.recursive_read_only == "Enabled":
        message = f'volume "{mount.name}" requested recursive read-only mode, but it is not supported by the runtime'
        raise StartError("CreateContainerConfigError", f"failed to resolve recursive read-only mode: {message}")
    return False
