"""The quality-of-service class of a pod (Kubernetes' apis/core/v1/helper/qos)."""

from collections.abc import Iterable
from typing import Final

from harness.cri.quantity import quantity_milli
from harness.kubelet.v1 import V1Container, V1Pod

__all__ = ["BEST_EFFORT", "BURSTABLE", "GUARANTEED", "qos_class"]

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"

_COUNTED: Final = ("cpu", "memory")


def qos_class(pod: V1Pod) -> str:
    """Return the class: by requests and limits of CPU and memory in all containers, init containers included."""
    containers = [*pod.spec.containers, *pod.spec.init_containers]
    requests, limits = _sums(containers, "requests"), _sums(containers, "limits")
    if not requests and not limits:
        return BEST_EFFORT
    all_limited = all(_amount(each, "limits", name) for each in containers for name in _COUNTED)
    if all_limited and all(requests.get(name, limits[name]) == limits[name] for name in _COUNTED):
        return GUARANTEED
    return BURSTABLE


def _sums(containers: Iterable[V1Container], kind: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for container in containers:
        for name in _COUNTED:
            if amount := _amount(container, kind, name):
                sums[name] = sums.get(name, 0) + amount
    return sums


def _amount(container: V1Container, kind: str, name: str) -> int:
    """Return an amount in thousandths; a quantity of 0 does not count."""
    quantities: dict[str, str] = getattr(container.resources, kind)
    return quantity_milli(quantities[name]) if name in quantities else 0
