"""The request for a container (kubelet's generateContainerConfig, kuberuntime_container.go)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from harness.cri.messages import ContainerConfig, ContainerMetadata, ContainerSecurity, Image, Mount
from harness.kubelet.environment import EnvironmentSources, expanded, variables
from harness.kubelet.labels import container_annotations, container_labels
from harness.kubelet.mounted_volume import MountedVolume
from harness.kubelet.resources import container_resources
from harness.kubelet.start_error import StartError
from harness.kubelet.v1 import V1Container, V1Pod

__all__ = ["ContainerFiles", "container_config"]

_HOSTS: Final = "/etc/hosts"
_PROPAGATIONS: Final = {"": "private", "None": "private", "HostToContainer": "rslave", "Bidirectional": "rshared"}


class ContainerFiles(NamedTuple):
    """The files that kubelet makes for a container: its hosts file, and the one for its termination message."""

    hosts: Path
    message: Path


def container_config(
    pod: V1Pod,
    container: V1Container,
    *,
    attempt: int,
    image: Image | None,
    volumes: Mapping[str, MountedVolume],
    files: ContainerFiles,
    sources: EnvironmentSources,
) -> ContainerConfig:
    """Return the request; `volumes` are those of the pod by name.

    Raises StartError (CreateContainerConfigError), OSError.
    """
    envs = variables(pod, container, sources)
    values = {each.key: each.value for each in envs}
    return ContainerConfig(
        metadata=ContainerMetadata(name=container.name, attempt=attempt),
        image=image.id if image is not None else "",
        command=[expanded(word, values) for word in container.command],
        args=[expanded(word, values) for word in container.args],
        working_dir=container.working_dir,
        envs=envs,
        mounts=_mounts(container, volumes, files, values),
        labels=container_labels(pod, container),
        annotations=container_annotations(pod, container, attempt),
        log_path=f"{container.name}/{attempt}.log",
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        resources=container_resources(pod, container, int(sources.capacity["memory"])),
        security=_security(pod, container, image),
    )


def _mounts(
    container: V1Container, volumes: Mapping[str, MountedVolume], files: ContainerFiles, values: Mapping[str, str]
) -> list[Mount]:
    mounts = []
    for mount in container.volume_mounts:
        volume = volumes.get(mount.name)
        if volume is None:
            message = f'cannot find volume "{mount.name}" to mount into container "{container.name}"'
            raise StartError("CreateContainerConfigError", message)
        sub_path = mount.sub_path or expanded(mount.sub_path_expr, values)
        try:
            source = _inside(volume.path, sub_path, mount.name) if sub_path else volume.path
        except OSError as error:
            message = (
                f'failed to prepare subPath for volumeMount "{mount.name}" of container "{container.name}": {error}'
            )
            raise StartError("CreateContainerConfigError", message) from error
        readonly = mount.read_only or volume.readonly
        propagation = _PROPAGATIONS[mount.mount_propagation]
        mounts.append(
            Mount(
                container_path=mount.mount_path,
                host_path=str(source),
                readonly=readonly,
                propagation=propagation,
            )
        )
    if not any(mount.container_path == _HOSTS for mount in mounts):
        mounts.append(Mount(container_path=_HOSTS, host_path=str(files.hosts)))
    if container.termination_message_path:
        mounts.append(Mount(container_path=container.termination_message_path, host_path=str(files.message)))
    return mounts


def _inside(volume: Path, sub_path: str, name: str) -> Path:
    """Return the path of a file or folder of a volume without symbolic links; a missing folder is made.

    A container may have put a link into the volume that leads out of it, so the links are followed first. As by kubelet
    (its subpath_linux.go), folders that are made get the volume's mode. Raises StartError, OSError.
    """
    root = volume.resolve()
    source = (root / sub_path).resolve()
    if sub_path.startswith("/") or ".." in Path(sub_path).parts or not source.is_relative_to(root):
        raise StartError("CreateContainerConfigError", f'subPath "{sub_path}" leaves volume "{name}"')
    for folder in (*reversed(source.parents), source):
        if folder.is_relative_to(root) and not folder.exists():
            folder.mkdir()
            folder.chmod(root.stat().st_mode & 0o7777)
    return source


def _security(pod: V1Pod, container: V1Container, image: Image | None) -> ContainerSecurity:
    own, of_pod = container.security_context, pod.spec.security_context
    user = own.run_as_user if own.run_as_user is not None else of_pod.run_as_user
    group = own.run_as_group if own.run_as_group is not None else of_pod.run_as_group
    non_root = own.run_as_non_root if own.run_as_non_root is not None else of_pod.run_as_non_root
    if non_root:
        _refuse_root(user, image, container)
    return ContainerSecurity(
        privileged=own.privileged,
        run_as_user=user,
        run_as_group=group,
        supplemental_groups=[*of_pod.supplemental_groups, *([of_pod.fs_group] if of_pod.fs_group else [])],
        readonly_rootfs=own.read_only_root_filesystem,
        no_new_privs=own.allow_privilege_escalation is False,
        add_capabilities=list(own.capabilities.add),
        drop_capabilities=list(own.capabilities.drop),
    )


def _refuse_root(user: int | None, image: Image | None, container: V1Container) -> None:
    """Raise StartError for a container of root in a pod that demands another user (verifyRunAsNonRoot)."""
    if user == 0:
        message = f"container's runAsUser breaks non-root policy (container: {container.name})"
    elif user is None and (image is None or image.user.partition(":")[0] in {"", "0", "root"}):
        message = f"container has runAsNonRoot and image will run as root (container: {container.name})"
    else:
        return
    raise StartError("CreateContainerConfigError", message)
