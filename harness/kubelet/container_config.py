"""The request for a container (kubelet's generateContainerConfig, kuberuntime_container.go)."""

from pathlib import Path
from typing import Final

from harness.cri.messages import (
    ContainerConfig,
    ContainerMetadata,
    ContainerSecurity,
    Image,
    ProfileType,
    SecurityProfile,
)
from harness.kubelet.container_mounts import MountSources, container_mounts
from harness.kubelet.environment import EnvironmentSources, expanded, variables
from harness.kubelet.formats import format_pod
from harness.kubelet.labels import container_annotations, container_labels
from harness.kubelet.resources import container_resources
from harness.kubelet.start_error import StartError
from harness.kubelet.v1 import V1Pod
from harness.kubelet.v1_container import V1Container, V1SecurityProfile

_SECCOMP_FILES: Final = Path("/var/lib/kubelet/seccomp")
"""kubelet's folder for seccomp profiles of the type Localhost."""


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
    message = f'{flaw} (pod: "{format_pod(pod)}", container: {container.name})'
    raise StartError("CreateContainerConfigError", message)
