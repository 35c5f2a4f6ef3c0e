"""What the API server fills into a pod (apis/core/v1/defaults.go)."""

import re
from typing import Final

from api.container import V1Container, V1Handler, V1Probe, V1Resources
from api.pod import V1EmptyDirVolume, V1Pod
from api.quantity import parse_quantity

_FILE_MODE: Final = 0o644
_GRACE_PERIOD: Final = 30
"""Seconds."""
_TAG: Final = re.compile(r":([\w][\w.-]{0,127})$")


def with_defaults(pod: V1Pod) -> V1Pod:
    """Return a copy of the pod with the API server's defaults in the empty fields."""
    pod = V1Pod.decode(pod.encode())
    spec = pod.spec
    spec.dns_policy = spec.dns_policy or "ClusterFirst"
    spec.restart_policy = spec.restart_policy or "Always"
    spec.scheduler_name = spec.scheduler_name or "default-scheduler"
    if spec.termination_grace_period_seconds is None:
        spec.termination_grace_period_seconds = _GRACE_PERIOD
    if spec.enable_service_links is None:
        spec.enable_service_links = True
    for volume in spec.volumes:
        if volume.config_map is not None and volume.config_map.default_mode is None:
            volume.config_map.default_mode = _FILE_MODE
        if volume.empty_dir is None and volume.host_path is None and volume.config_map is None:
            volume.empty_dir = V1EmptyDirVolume()
    for container in [*spec.containers, *spec.init_containers, *spec.ephemeral_containers]:
        _default_container(container)
    for container in [*spec.containers, *spec.init_containers]:
        container.resources.requests = container.resources.limits | container.resources.requests
        for port in container.ports:
            if spec.host_network and not port.host_port:
                port.host_port = port.container_port
    return pod


def _default_container(container: V1Container) -> None:
    container.image_pull_policy = container.image_pull_policy or _pull_policy(container.image)
    container.termination_message_path = container.termination_message_path or "/dev/termination-log"
    container.termination_message_policy = container.termination_message_policy or "File"
    for port in container.ports:
        port.protocol = port.protocol or "TCP"
    for variable in container.env:
        if variable.value_from is not None and variable.value_from.field_ref is not None:
            variable.value_from.field_ref.api_version = variable.value_from.field_ref.api_version or "v1"
    for probe in (container.startup_probe, container.liveness_probe, container.readiness_probe):
        if probe is not None:
            _default_probe(probe)
    for handler in (container.lifecycle.post_start, container.lifecycle.pre_stop):
        if handler is not None:
            _default_handler(handler)
    _round_up(container.resources)


def _pull_policy(image: str) -> str:
    """Return Always for the tag `latest`, which an image without tag and digest has, else IfNotPresent."""
    if not image:
        return "IfNotPresent"
    name, _, digest = image.partition("@")
    tag = _TAG.search(name)
    return "Always" if (tag[1] if tag else "" if digest else "latest") == "latest" else "IfNotPresent"


def _default_probe(probe: V1Probe) -> None:
    probe.timeout_seconds = probe.timeout_seconds or 1
    probe.period_seconds = probe.period_seconds or 10
    probe.success_threshold = probe.success_threshold or 1
    probe.failure_threshold = probe.failure_threshold or 3
    _default_handler(probe)


def _default_handler(handler: V1Handler) -> None:
    if handler.http_get is not None:
        handler.http_get.path = handler.http_get.path or "/"
        handler.http_get.scheme = handler.http_get.scheme or "HTTP"


def _round_up(resources: V1Resources) -> None:
    for amounts in (resources.limits, resources.requests):
        for name, text in amounts.items():
            amounts[name] = str(parse_quantity(text).rounded_up_to_milli())
