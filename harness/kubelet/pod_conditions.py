"""The conditions of a pod (kubelet's status/generate.go)."""

from collections.abc import Iterable, Sequence
from typing import Final

from harness.kubelet.formats import format_strings
from harness.kubelet.pod_containers import is_sidecar
from harness.kubelet.runtime_pod_status import RuntimePodStatus, sandbox_change
from harness.kubelet.v1 import V1Pod
from harness.kubelet.v1_status import FAILED, SUCCEEDED, V1ContainerStatus, V1PodCondition

POD_READY_TO_START_CONTAINERS: Final = "PodReadyToStartContainers"
INITIALIZED: Final = "Initialized"
READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"
POD_SCHEDULED: Final = "PodScheduled"

_TRUE: Final = "True"
_FALSE: Final = "False"

_UNKNOWN_CONTAINER_STATUSES: Final = "UnknownContainerStatuses"
_POD_COMPLETED: Final = "PodCompleted"
_POD_FAILED: Final = "PodFailed"
_CONTAINERS_NOT_READY: Final = "ContainersNotReady"
_CONTAINERS_NOT_INITIALIZED: Final = "ContainersNotInitialized"


def pod_conditions(
    pod: V1Pod,
    status: RuntimePodStatus,
    statuses: Sequence[V1ContainerStatus],
    phase: str,
    old: Sequence[V1PodCondition] = (),
) -> list[V1PodCondition]:
    """Return all conditions in kubelet's order, without times; `statuses` are those of all containers of the pod."""
    sandbox = _FALSE if sandbox_change(pod, status).changed else _TRUE
    return [
        V1PodCondition(type=POD_READY_TO_START_CONTAINERS, status=sandbox),
        initialized(pod, statuses, phase, old),
        ready(pod, statuses, phase),
        containers_ready(pod, statuses, phase),
        V1PodCondition(type=POD_SCHEDULED, status=_TRUE),
    ]


def initialized(
    pod: V1Pod, statuses: Sequence[V1ContainerStatus], phase: str, old: Sequence[V1PodCondition] = ()
) -> V1PodCondition:
    """Return Initialized, which never becomes False again (GeneratePodInitializedCondition).

    An init container is complete when it is ready, which is that it has ended with 0; a sidecar when it is started.
    """
    if not statuses and pod.spec.init_containers:
        return V1PodCondition(type=INITIALIZED, status=_FALSE, reason=_UNKNOWN_CONTAINER_STATUSES)
    by_name = {status.name: status for status in statuses}
    unknown: list[str] = []
    incomplete: list[str] = []
    for container in pod.spec.init_containers:
        status = by_name.get(container.name)
        if status is None:
            unknown.append(container.name)
        elif not (status.started if is_sidecar(container) else status.ready):
            incomplete.append(container.name)
    if phase == SUCCEEDED and not unknown:
        return V1PodCondition(type=INITIALIZED, status=_TRUE, reason=_POD_COMPLETED)
    regular = (by_name.get(container.name) for container in pod.spec.containers)
    if any(status and (status.state.running or status.state.terminated) for status in regular):
        return V1PodCondition(type=INITIALIZED, status=_TRUE)
    message = _message(unknown, "incomplete", incomplete)
    if not message or any(condition.type == INITIALIZED and condition.status == _TRUE for condition in old):
        return V1PodCondition(type=INITIALIZED, status=_TRUE)
    return V1PodCondition(type=INITIALIZED, status=_FALSE, reason=_CONTAINERS_NOT_INITIALIZED, message=message)


def containers_ready(pod: V1Pod, statuses: Sequence[V1ContainerStatus], phase: str) -> V1PodCondition:
    """Return ContainersReady: all regular containers and sidecars are ready (GenerateContainersReadyCondition)."""
    if not statuses:
        return V1PodCondition(type=CONTAINERS_READY, status=_FALSE, reason=_UNKNOWN_CONTAINER_STATUSES)
    by_name = {status.name: status for status in statuses}
    names = [container.name for container in (*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers)]
    unknown = [name for name in names if name not in by_name]
    unready = [name for name in names if name in by_name and not by_name[name].ready]
    if phase == SUCCEEDED and not unknown:
        return V1PodCondition(type=CONTAINERS_READY, status=_FALSE, reason=_POD_COMPLETED)
    if phase == FAILED:
        return V1PodCondition(type=CONTAINERS_READY, status=_FALSE, reason=_POD_FAILED)
    if message := _message(unknown, "unready", unready):
        return V1PodCondition(type=CONTAINERS_READY, status=_FALSE, reason=_CONTAINERS_NOT_READY, message=message)
    return V1PodCondition(type=CONTAINERS_READY, status=_TRUE)


def ready(pod: V1Pod, statuses: Sequence[V1ContainerStatus], phase: str) -> V1PodCondition:
    """Return Ready, which is ContainersReady by another name: manifests here have no readiness gates."""
    condition = containers_ready(pod, statuses, phase)
    condition.type = READY
    return condition


def with_transition_times(
    conditions: Iterable[V1PodCondition], old: Sequence[V1PodCondition], now: str
) -> list[V1PodCondition]:
    """Return the conditions with `now`, RFC 3339, as the time of those whose status has changed since `old`."""
    before = {condition.type: condition for condition in old}
    timed: list[V1PodCondition] = []
    for condition in conditions:
        known = before.get(condition.type)
        same = known is not None and known.status == condition.status
        time = known.last_transition_time if known is not None and same else now
        timed.append(V1PodCondition(**{**vars(condition), "last_transition_time": time}))
    return timed


def _message(unknown: Sequence[str], flaw: str, flawed: Sequence[str]) -> str:
    parts = [("unknown", unknown), (flaw, flawed)]
    return ", ".join(f"containers with {word} status: {format_strings(names)}" for word, names in parts if names)
