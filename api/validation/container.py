"""The API server's rules for containers, in its order and words (validateContainers in core/validation/validation.go).

Pods share those for profiles of seccomp and AppArmor. One rule is left out: `image` may be empty, for commands on the
node's own file system.
"""

from collections.abc import Iterator
from typing import Final

from api.container import (
    V1Container,
    V1ContainerPort,
    V1Lifecycle,
    V1Probe,
    V1SecurityProfile,
    V1UserContext,
    V1VolumeMount,
)
from api.errors import FieldError, duplicate, flaws_at, forbidden, invalid, not_found, not_supported, required
from api.names import relative_path_flaws
from api.validation.environment import validate_env, validate_env_from
from api.validation.resources import validate_resources

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
        yield from _hooks(container, grace_period, place)
        yield from _probes(container, place)
        yield from container.flaws(place, "restart_policy")
    yield from _of_host_ports(containers, path)


def validate_init_containers(
    containers: list[V1Container], others: list[V1Container], volumes: set[str], grace_period: int | None, path: str
) -> Iterator[FieldError]:
    """Judge the init containers; `others` are the app containers, whose names they must not have."""
    names = {other.name for other in others}
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        yield from _of_container(container, volumes, place)
        yield from container.flaws(place, "restart_policy")
        if container.name in names:
            yield duplicate(f"{place}.name", container.name)
        elif container.name:
            names.add(container.name)
        yield from _of_host_ports([container], path)
        if container.is_sidecar:
            yield from _hooks(container, grace_period, place)
            yield from _probes(container, place)
        else:
            yield from _of_plain_init(container, place)


def _of_container(container: V1Container, volumes: set[str], path: str) -> Iterator[FieldError]:
    """Judge what all kinds of containers have in common (validateContainerCommon)."""
    yield from container.flaws(path, "name", "termination_message_policy")
    yield from _of_ports(container.ports, f"{path}.ports")
    yield from validate_env(container.env, f"{path}.env")
    yield from validate_env_from(container.env_from, f"{path}.envFrom")
    yield from _of_mounts(container, volumes, f"{path}.volumeMounts")
    yield from container.flaws(path, "image_pull_policy")
    yield from validate_resources(container.resources, f"{path}.resources")
    yield from _of_security(container, f"{path}.securityContext")


def _of_ports(ports: list[V1ContainerPort], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        flaws = list(port.flaws(place, "name"))
        yield from flaws
        if port.name and not flaws and port.name in names:
            yield duplicate(f"{place}.name", port.name)
        names.add(port.name)
        yield from port.flaws(place, "container_port", "host_port", "protocol")


def _of_mounts(container: V1Container, volumes: set[str], path: str) -> Iterator[FieldError]:
    """Judge the mounts; as in the API server, errors of subPath and mountPropagation name no index."""
    mount_paths: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        place = f"{path}[{index}]"
        yield from mount.flaws(place, "name")
        if mount.name not in volumes:
            yield not_found(f"{place}.name", mount.name)
        yield from mount.flaws(place, "mount_path")
        if mount.mount_path in mount_paths:
            yield invalid(f"{place}.mountPath", mount.mount_path, "must be unique")
        mount_paths.add(mount.mount_path)
        yield from mount.flaws(path, "sub_path")
        if mount.sub_path_expr and mount.sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{place}.subPathExpr", mount.sub_path_expr, detail)
        yield from mount.flaws(path, "sub_path_expr", "mount_propagation")
        yield from _of_propagation(mount, container, path)


def _of_propagation(mount: V1VolumeMount, container: V1Container, path: str) -> Iterator[FieldError]:
    mode = mount.mount_propagation
    if mode == "Bidirectional" and not container.security_context.privileged:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(f"{path}.mountPropagation", detail)
    yield from mount.flaws(path, "recursive_read_only")
    if mount.recursive_read_only in {"Enabled", "IfPossible"}:
        if not mount.read_only:
            yield forbidden(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true")
        if mode not in {"", "None"}:
            detail = "may only be specified when mountPropagation is None or not specified"
            yield forbidden(f"{path}.recursiveReadOnly", detail)


def _of_security(container: V1Container, path: str) -> Iterator[FieldError]:
    context = container.security_context
    yield from context.flaws(path)
    yield from validate_profiles(context, path)
    if context.allow_privilege_escalation is False:
        shown = context.encode()
        if context.privileged:
            yield invalid(path, shown, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        if "CAP_SYS_ADMIN" in context.capabilities.add:
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, shown, detail)


def _of_plain_init(container: V1Container, path: str) -> Iterator[FieldError]:
    if container.lifecycle != V1Lifecycle():
        yield forbidden(f"{path}.lifecycle", _SIDECARS_ONLY)
    for name in ("liveness_probe", "readiness_probe", "startup_probe"):
        if getattr(container, name) is not None:
            yield forbidden(f"{path}.{container.key_of(name)}", _SIDECARS_ONLY)


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


def _hooks(container: V1Container, grace_period: int | None, path: str) -> Iterator[FieldError]:
    """Judge the hooks of a container; `grace_period`, in seconds, is the pod's."""
    for key, hook in (("postStart", container.lifecycle.post_start), ("preStop", container.lifecycle.pre_stop)):
        if hook is not None:
            place = f"{path}.lifecycle.{key}"
            yield from hook.flaws(place)
            sleep = hook.sleep if len(hook.members()) == 1 else None
            if sleep is not None and grace_period is not None and not 0 <= sleep.seconds <= grace_period:
                limit = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
                yield invalid(f"{place}.sleep", sleep.seconds, limit)


def _probes(container: V1Container, path: str) -> Iterator[FieldError]:
    """Judge the probes of a container, with defaults filled in."""
    if container.liveness_probe is not None:
        yield from _of_restarting_probe(container.liveness_probe, f"{path}.livenessProbe")
    if container.readiness_probe is not None:
        yield from container.readiness_probe.flaws(f"{path}.readinessProbe")
        if (seconds := container.readiness_probe.termination_grace_period_seconds) is not None:
            place = f"{path}.readinessProbe.terminationGracePeriodSeconds"
            yield invalid(place, seconds, "must not be set for readinessProbes")
    if container.startup_probe is not None:
        yield from _of_restarting_probe(container.startup_probe, f"{path}.startupProbe")


def _of_restarting_probe(probe: V1Probe, path: str) -> Iterator[FieldError]:
    """Judge a probe whose failure restarts the container: one success is enough for it."""
    yield from probe.flaws(path)
    if probe.success_threshold != 1:
        yield invalid(f"{path}.successThreshold", probe.success_threshold, "must be 1")
