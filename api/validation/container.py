"""The API server's rules for containers, in its order and words (validateContainers in core/validation/validation.go).

Pods share those for users and for profiles of seccomp and AppArmor. One rule is left out: `image` may be empty, for
commands on the node's own file system.
"""

from collections.abc import Iterator
from typing import Final

from api.container import V1Container, V1ContainerPort, V1SecurityProfile, V1UserContext, V1VolumeMount
from api.errors import FieldError, duplicate, forbidden, invalid, not_found, not_supported, required
from api.names import (
    flaws_at,
    group_id_flaws,
    label_flaws,
    port_name_flaws,
    port_number_flaws,
    relative_path_flaws,
)
from api.validation.environment import validate_env, validate_env_from
from api.validation.handlers import validate_hooks, validate_probes
from api.validation.resources import validate_resources

_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")
_SIDECARS_ONLY: Final = "may not be set for init containers without restartPolicy=Always"

_LOCALHOST: Final = "Localhost"
_PROFILE_TYPES: Final = (_LOCALHOST, "RuntimeDefault", "Unconfined")


def validate_containers(
    containers: list[V1Container], volumes: set[str], grace_period: int | None, path: str
) -> Iterator[FieldError]:
    """Judge the app containers; `volumes` are the names that mounts may use, `grace_period` is in seconds."""
    if not containers:
        yield required(path)
    names: set[str] = set()
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        yield from _of_container(container, volumes, place)
        if container.name in names:
            yield duplicate(f"{place}.name", container.name)
        names.add(container.name)
        yield from validate_hooks(container, grace_period, place)
        yield from validate_probes(container, place)
        yield from _of_restart_policy(container, place)
    yield from _of_host_ports(containers, path)


def validate_init_containers(
    containers: list[V1Container], others: list[V1Container], volumes: set[str], grace_period: int | None, path: str
) -> Iterator[FieldError]:
    """Judge the init containers; `others` are the app containers, whose names they must not have."""
    names = {other.name for other in others}
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        yield from _of_container(container, volumes, place)
        yield from _of_restart_policy(container, place)
        if container.name in names:
            yield duplicate(f"{place}.name", container.name)
        elif container.name:
            names.add(container.name)
        yield from _of_host_ports([container], path)
        if container.restart_policy == "Always":
            yield from validate_hooks(container, grace_period, place)
            yield from validate_probes(container, place)
        else:
            yield from _of_plain_init(container, place)


def validate_user(context: V1UserContext, path: str) -> Iterator[FieldError]:
    """Judge the user and group of a container or pod."""
    for key, number in (("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)):
        if number is not None:
            for flaw in group_id_flaws(number):
                yield invalid(f"{path}.{key}", number, flaw)


def validate_images(containers: list[V1Container], path: str) -> Iterator[FieldError]:
    """Judge the names of images."""
    for index, container in enumerate(containers):
        if container.image != container.image.strip():
            yield invalid(f"{path}[{index}].image", container.image, "must not have leading or trailing whitespace")


def _of_container(container: V1Container, volumes: set[str], path: str) -> Iterator[FieldError]:
    """Judge what all kinds of containers have in common (validateContainerCommon)."""
    if not container.name:
        yield required(f"{path}.name")
    else:
        yield from flaws_at(f"{path}.name", container.name, label_flaws)
    policy = container.termination_message_policy
    if policy not in _MESSAGE_POLICIES:
        place = f"{path}.terminationMessagePolicy"
        yield not_supported(place, policy, _MESSAGE_POLICIES) if policy else required(place)
    yield from _of_ports(container.ports, f"{path}.ports")
    yield from validate_env(container.env, f"{path}.env")
    yield from validate_env_from(container.env_from, f"{path}.envFrom")
    yield from _of_mounts(container, volumes, f"{path}.volumeMounts")
    if (policy := container.image_pull_policy) not in _PULL_POLICIES:
        place = f"{path}.imagePullPolicy"
        yield not_supported(place, policy, _PULL_POLICIES) if policy else required(place)
    yield from validate_resources(container.resources, f"{path}.resources")
    yield from _of_security(container, f"{path}.securityContext")


def _of_ports(ports: list[V1ContainerPort], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        if port.name:
            flaws = flaws_at(f"{place}.name", port.name, port_name_flaws)
            yield from flaws
            if not flaws and port.name in names:
                yield duplicate(f"{place}.name", port.name)
            names.add(port.name)
        if not port.container_port:
            yield required(f"{place}.containerPort")
        for key, number in (("containerPort", port.container_port), ("hostPort", port.host_port)):
            for flaw in port_number_flaws(number) if number else ():
                yield invalid(f"{place}.{key}", number, flaw)
        if not port.protocol:
            yield required(f"{place}.protocol")
        elif port.protocol not in _PROTOCOLS:
            yield not_supported(f"{place}.protocol", port.protocol, _PROTOCOLS)


def _of_mounts(container: V1Container, volumes: set[str], path: str) -> Iterator[FieldError]:
    """Judge the mounts; as in the API server, errors of subPath and mountPropagation name no index."""
    mount_paths: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        place = f"{path}[{index}]"
        if not mount.name:
            yield required(f"{place}.name")
        if mount.name not in volumes:
            yield not_found(f"{place}.name", mount.name)
        if not mount.mount_path:
            yield required(f"{place}.mountPath")
        if mount.mount_path in mount_paths:
            yield invalid(f"{place}.mountPath", mount.mount_path, "must be unique")
        mount_paths.add(mount.mount_path)
        yield from flaws_at(f"{path}.subPath", mount.sub_path, relative_path_flaws)
        if mount.sub_path_expr and mount.sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{place}.subPathExpr", mount.sub_path_expr, detail)
        yield from flaws_at(f"{path}.subPathExpr", mount.sub_path_expr, relative_path_flaws)
        yield from _of_propagation(mount, container, path)


def _of_propagation(mount: V1VolumeMount, container: V1Container, path: str) -> Iterator[FieldError]:
    mode = mount.mount_propagation
    if mode and mode not in _PROPAGATIONS:
        yield not_supported(f"{path}.mountPropagation", mode, _PROPAGATIONS)
    if mode == "Bidirectional" and not container.security_context.privileged:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(f"{path}.mountPropagation", detail)
    recursive = mount.recursive_read_only
    if recursive and recursive not in _RECURSIVE:
        yield not_supported(f"{path}.recursiveReadOnly", recursive, _RECURSIVE)
    elif recursive not in {"", "Disabled"}:
        if not mount.read_only:
            yield forbidden(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true")
        if mode not in {"", "None"}:
            detail = "may only be specified when mountPropagation is None or not specified"
            yield forbidden(f"{path}.recursiveReadOnly", detail)


def _of_security(container: V1Container, path: str) -> Iterator[FieldError]:
    context = container.security_context
    yield from validate_user(context, path)
    yield from validate_profiles(context, path)
    if context.allow_privilege_escalation is False:
        shown = context.encode()
        if context.privileged:
            yield invalid(path, shown, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        if "CAP_SYS_ADMIN" in context.capabilities.add:
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, shown, detail)


def _of_restart_policy(container: V1Container, path: str) -> Iterator[FieldError]:
    if container.restart_policy and container.restart_policy not in _RESTART_POLICIES:
        yield not_supported(f"{path}.restartPolicy", container.restart_policy, _RESTART_POLICIES)


def _of_plain_init(container: V1Container, path: str) -> Iterator[FieldError]:
    hooks = container.lifecycle
    for key, present in (
        ("lifecycle", hooks.post_start is not None or hooks.pre_stop is not None),
        ("livenessProbe", container.liveness_probe is not None),
        ("readinessProbe", container.readiness_probe is not None),
        ("startupProbe", container.startup_probe is not None),
    ):
        if present:
            yield forbidden(f"{path}.{key}", _SIDECARS_ONLY)


def _of_host_ports(containers: list[V1Container], path: str) -> Iterator[FieldError]:
    """Find ports of the node that two containers want (AccumulateUniqueHostPorts)."""
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.ports):
            key = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            if port.host_port and key in taken:
                yield duplicate(f"{path}[{index}].ports[{number}].hostPort", key)
            taken.add(key)


def validate_profiles(context: V1UserContext, path: str) -> Iterator[FieldError]:
    """Judge the profiles of a container or pod."""
    seccomp, apparmor = context.seccomp_profile, context.app_armor_profile
    if seccomp is not None:
        yield from _of_profile(seccomp, f"{path}.seccompProfile", "seccompProfile", "seccomp")
        if seccomp.localhost_profile and seccomp.type == _LOCALHOST:
            place = f"{path}.seccompProfile.localhostProfile"
            yield from flaws_at(place, seccomp.localhost_profile, relative_path_flaws)
    if apparmor is not None:
        yield from _of_profile(apparmor, f"{path}.appArmorProfile", "appArmorProfile", "AppArmor")


def _of_profile(profile: V1SecurityProfile, path: str, key: str, module: str) -> Iterator[FieldError]:
    if not profile.type:
        yield required(f"{path}.type", f"type is required when {key} is set")
    elif profile.type not in _PROFILE_TYPES:
        yield not_supported(f"{path}.type", profile.type, _PROFILE_TYPES)
    place = f"{path}.localhostProfile"
    if profile.type == _LOCALHOST and not profile.localhost_profile:
        yield required(place, f"must be set when {module} type is Localhost")
    if profile.type != _LOCALHOST and profile.localhost_profile is not None:
        yield invalid(place, profile.localhost_profile, f"can only be set when {module} type is Localhost")
