"""Whether a pod may run on this node beside the others (kubelet's predicate admit handler, GeneralPredicates)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from api.container import V1ContainerPort
from api.pod import V1Pod
from harness.kubelet.pod_resources import pod_requests

MAX_PODS: Final = 110
"""kubelet's default for `--max-pods`."""

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 -- compared, not listened at
_CORE: Final = ("cpu", "memory", "ephemeral-storage")


class NodeFacts(NamedTuple):
    """What admission needs to know of a node.

    `allocatable` is by resource, CPU in thousandths and all others in whole units; a core resource that it lacks is 0,
    and requests of other missing ones are not looked at.
    """

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    max_pods: int = MAX_PODS


class Rejection(NamedTuple):
    """Why a pod may not run: one word in CamelCase, and a message."""

    reason: str
    message: str


def admit(pod: V1Pod, active: Iterable[V1Pod], node: NodeFacts) -> Rejection | None:
    """Return why a pod may not run beside the `active` ones, None if it may. Raises ValueError for a bad quantity.

    The first reason counts, in kubelet's order: the label for the operating system, resources, node selector, node
    name, host ports. The pod itself is not counted among the active ones.
    """
    if pod.metadata.labels.get("kubernetes.io/os", "linux") != "linux":
        return Rejection(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        )
    others = [other for other in active if other.metadata.uid != pod.metadata.uid]
    if (lacking := _resources(pod, others, node)) is not None:
        return lacking
    if any(node.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if pod.spec.node_name not in {"", node.name}:
        return _failed("NodeName", "node(s) didn't match the requested node name")
    used = [port for other in others for port in _ports(other)]
    if any(_conflict(port, taken) for port in _ports(pod) for taken in used):
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    return None


def _resources(pod: V1Pod, others: list[V1Pod], node: NodeFacts) -> Rejection | None:
    if len(others) >= node.max_pods:
        return _insufficient("pods", 1, len(others), node.max_pods)
    requests = pod_requests(pod)
    names = [*_CORE, *(name for name in sorted(requests) if name not in _CORE and name in node.allocatable)]
    for name in names:
        requested = requests.get(name, 0)
        used = sum(pod_requests(other).get(name, 0) for other in others) if requested > 0 else 0
        if requested > 0 and requested > node.allocatable.get(name, 0) - used:
            return _insufficient(name, requested, used, node.allocatable.get(name, 0))
    return None


def _insufficient(name: str, requested: int, used: int, capacity: int) -> Rejection:
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}",
    )


def _ports(pod: V1Pod) -> Iterator[V1ContainerPort]:
    """Yield the host ports of containers that run as long as the pod."""
    for container in (*pod.spec.sidecars(), *pod.spec.containers):
        yield from (port for port in container.ports if port.host_port > 0)


def _conflict(one: V1ContainerPort, other: V1ContainerPort) -> bool:
    """Tell whether both want the same port; an address that is missing, or 0.0.0.0, stands for all."""
    if (one.protocol or "TCP", one.host_port) != (other.protocol or "TCP", other.host_port):
        return False
    addresses = {one.host_ip or _ANY_ADDRESS, other.host_ip or _ANY_ADDRESS}
    return len(addresses) == 1 or _ANY_ADDRESS in addresses


def _failed(predicate: str, description: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {description}")
