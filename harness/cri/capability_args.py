"""The capability arguments of a sandbox's request, as containerd's CRI server gives them to its networks.

containerd: internal/cri/server/sandbox_run.go (cniNamespaceOpts).
"""

from collections.abc import Mapping
from typing import Final

from api.quantity import QuantityError, quantity_value
from harness.cri.messages import PodSandboxConfig
from harness.cri.service import RuntimeServiceError
from harness.runtime.unserved_requests import (
    BANDWIDTH,
    EGRESS_ANNOTATION,
    INGRESS_ANNOTATION,
    POD_ANNOTATIONS,
    PORT_MAPPINGS,
)

_LEAST_RATE: Final = 1_000  # bits per second, as Kubernetes' pkg/util/bandwidth
_GREATEST_RATE: Final = 10**15
_ANY_BURST: Final = 2**32 - 1  # containerd's: the annotations limit the rate alone


def capability_args(config: PodSandboxConfig) -> dict[str, object]:
    """Return the arguments of all capabilities; libcni gives a plugin those that it declares.

    Raises RuntimeServiceError, which names the annotation and its value.
    """
    arguments: dict[str, object] = {POD_ANNOTATIONS: dict(config.annotations)}
    mapped = [each for each in config.port_mappings if each.host_port > 0]
    if mapped:
        arguments[PORT_MAPPINGS] = [
            {
                "hostPort": each.host_port,
                "containerPort": each.container_port,
                "protocol": each.protocol.lower(),
                "hostIP": each.host_ip,
            }
            for each in mapped
        ]
    if bandwidth := _bandwidth(config.annotations):
        arguments[BANDWIDTH] = bandwidth
    if config.dns_config is not None:
        dns = config.dns_config
        arguments["dns"] = {"servers": dns.servers, "searches": dns.searches, "options": dns.options}
    if config.cgroup_parent:
        arguments["cgroupPath"] = config.cgroup_parent
    return arguments


def _bandwidth(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return the argument of the capability `bandwidth`: rates in bits per second."""
    limits = {}
    for direction, annotation in (("ingress", INGRESS_ANNOTATION), ("egress", EGRESS_ANNOTATION)):
        if annotation in annotations:
            limits[f"{direction}Rate"] = _rate(annotation, annotations[annotation])
            limits[f"{direction}Burst"] = _ANY_BURST
    return limits


def _rate(annotation: str, text: str) -> int:
    try:
        rate = quantity_value(text)
    except QuantityError as error:
        raise refused(annotation, text, str(error)) from None
    if rate < _LEAST_RATE:
        raise refused(annotation, text, "resource is unreasonably small (< 1kbit)")
    if rate > _GREATEST_RATE:
        raise refused(annotation, text, "resource is unreasonably large (> 1Pbit)")
    return rate


def refused(annotation: str, value: str, reason: str) -> RuntimeServiceError:
    """Return the error of an annotation; it names the annotation and its value."""
    return RuntimeServiceError(f'annotation {annotation}: "{value}": {reason}')
