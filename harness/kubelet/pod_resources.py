"""A pod's requests and limits in all, and its class of service (component-helpers/resource, helper/qos)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from api.container import V1Container
from api.pod import V1Pod
from api.quantity import parse_quantity, quantity_milli, quantity_value

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"

_FOR_QOS: Final = ("cpu", "memory")


def pod_requests(pod: V1Pod) -> dict[str, int]:
    """Return a pod's requests by resource: CPU in thousandths, all others in whole units. Raises ValueError."""
    return _of_pod(pod, lambda container: container.resources.requests)


def pod_limits(pod: V1Pod) -> dict[str, int]:
    """Return the sums of a pod's limits, in the units of `pod_requests`; a missing limit counts as 0."""
    return _of_pod(pod, lambda container: container.resources.limits)


def _of_pod(pod: V1Pod, quantities: Callable[[V1Container], Mapping[str, str]]) -> dict[str, int]:
    """Return the larger of two needs: of all that runs together at last, and of each init container before that."""
    together: Counter[str] = Counter()
    for container in pod.spec.containers:
        together.update(_numbers(quantities(container)))
    sidecars: Counter[str] = Counter()
    initially: Counter[str] = Counter()
    for container in pod.spec.init_containers:
        own = _numbers(quantities(container))
        initially |= sidecars + own
        if container.is_sidecar:
            sidecars += own
            together += own
    return dict(together | initially)


def _numbers(quantities: Mapping[str, str]) -> Counter[str]:
    return Counter(
        {name: quantity_milli(text) if name == "cpu" else quantity_value(text) for name, text in quantities.items()}
    )


def qos_class(pod: V1Pod) -> str:
    """Return Guaranteed, Burstable or BestEffort by CPU and memory of all containers. Raises ValueError."""
    containers = [*pod.spec.containers, *pod.spec.init_containers]
    requests = _sums(container.resources.requests for container in containers)
    limits = _sums(container.resources.limits for container in containers)
    if not requests and not limits:
        return BEST_EFFORT
    limited = all(_positive(container.resources.limits).keys() == set(_FOR_QOS) for container in containers)
    return GUARANTEED if limited and requests == limits else BURSTABLE


def _sums(quantities: Iterable[Mapping[str, str]]) -> Counter[str]:
    return sum(map(_positive, quantities), Counter())


def _positive(quantities: Mapping[str, str]) -> Counter[str]:
    return +Counter({name: parse_quantity(text).nano for name, text in quantities.items() if name in _FOR_QOS})
