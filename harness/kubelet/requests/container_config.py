"""The request for a container, with its mounts: volumes, /etc/hosts, the file for its termination message.

It is what kubelet's generateContainerConfig and makeMounts return (kuberuntime_container.go, kubelet_pods.go).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from api.container import V1Container, V1SecurityProfile, V1VolumeMount
from api.pod import V1Pod
from harness.cri.messages import (
    ContainerConfig,
    ContainerMetadata,
    ContainerSecurity,
    Image,
    Mount,
    ProfileType,
    SecurityProfile,
)
from harness.kubelet.labels import container_annotations, container_labels
from harness.kubelet.requests.cgroups import container_resources
from harness.kubelet.requests.environment import EnvironmentSources, expanded, variables
from harness.kubelet.status.start_errors import StartError
from harness.kubelet.volumes.sub_paths import bound_sub_path

_SECCOMP_FILES: Final = Path("/var/lib/kubelet/seccomp")
"""kubelet's folder for seccomp profiles of the type Localhost."""

_HOSTS: Final = "/etc/hosts"
_PROPAGATIONS: Final = {"": "private", "None": "private", "HostToContainer": "rslave", "Bidirectional": "rshared"}


class MountedVolume(NamedTuple):
    """A file or folder on the node; `readonly` holds for every container."""

    path: Path
    readonly: bool = False


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


def container_config(
    pod: V1Pod,
    container: V1Container,
    *,
    attempt: int,
    image: Image | None,
    mounts: MountSources,
    sources: EnvironmentSources,
) -> ContainerConfig:
    """Return the request.

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
        mounts=container_mounts(container, mounts, values),
        labels=container_labels(pod, container),
        annotations=container_annotations(pod, container, attempt),
        log_path=f"{container.name}/{attempt}.log",
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        resources=container_resources(pod, container, int(sources.capacity["memory"])),
        security=_security(pod, container, image),
    )


def _security(pod: V1Pod, container: V1Container, image: Image | None) -> ContainerSecurity:
    own, of_pod = container.security_context, pod.spec.security_context
    user = own.run_as_user if own.run_as_user is not None else of_pod.run_as_user
    group = own.run_as_group if own.run_as_group is not None else of_pod.run_as_group
    non_root = own.run_as_non_root if own.run_as_non_root is not None else of_pod.run_as_non_root
    if non_root:
        _refuse_root(pod, container, user, image)
    return ContainerSecurity(
        privileged=own.privileged,
        run_as_user=user,
        run_as_group=group,
        supplemental_groups=[*of_pod.supplemental_groups, *([of_pod.fs_group] if of_pod.fs_group else [])],
        readonly_rootfs=own.read_only_root_filesystem,
        no_new_privs=own.allow_privilege_escalation is False,
        add_capabilities=list(own.capabilities.add),
        drop_capabilities=list(own.capabilities.drop),
        seccomp=_seccomp(own.seccomp_profile or of_pod.seccomp_profile),
        apparmor=_apparmor(own.app_armor_profile or of_pod.app_armor_profile),
    )


def _seccomp(profile: V1SecurityProfile | None) -> SecurityProfile:
    """Return the profile, none without one in the manifest: kubelet's SeccompDefault is off."""
    if profile is None:
        return SecurityProfile()
    file = str(_SECCOMP_FILES / profile.localhost_profile) if profile.localhost_profile else ""
    return SecurityProfile(profile_type=ProfileType(profile.type), localhost_ref=file)


def _apparmor(profile: V1SecurityProfile | None) -> SecurityProfile | None:
    if profile is None:
        return None
    return SecurityProfile(profile_type=ProfileType(profile.type), localhost_ref=profile.localhost_profile or "")


def _refuse_root(pod: V1Pod, container: V1Container, user: int | None, image: Image | None) -> None:
    """Raise StartError for a container of root in a pod that demands another user (verifyRunAsNonRoot)."""
    named = "" if image is None else image.user.partition(":")[0]
    if user == 0:
        flaw = "container's runAsUser breaks non-root policy"
    elif user is not None or (named.isdigit() and int(named)):
        return
    elif named and not named.isdigit():
        flaw = f"container has runAsNonRoot and image has non-numeric user ({named}), cannot verify user is non-root"
    else:
        flaw = "container has runAsNonRoot and image will run as root"
    message = f'{flaw} (pod: "{pod}", container: {container.name})'
    raise StartError("CreateContainerConfigError", message)


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
