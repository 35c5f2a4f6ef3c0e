"""The status of a pod as the API has it (kubelet's generateAPIPodStatus), with its conditions (status/generate.go)."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from api.container import V1Container
from api.formats import format_strings, format_time
from api.pod import V1Pod
from api.status import FAILED, SUCCEEDED, V1ContainerStatus, V1PodCondition, V1PodStatus
from harness.cri.messages import PodSandboxState
from harness.cri.service import RuntimeService
from harness.kubelet.pod_resources import qos_class
from harness.kubelet.probes.results import ProbeResult, ProbeResults, Probes
from harness.kubelet.status.container_statuses import StatusSources, container_statuses, init_container_statuses
from harness.kubelet.status.pod_phase import pod_phase
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus, runtime_pod_status, sandbox_change
from harness.kubelet.status.start_errors import ReasonCache

DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
POD_READY_TO_START_CONTAINERS: Final = "PodReadyToStartContainers"
INITIALIZED: Final = "Initialized"
READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"
POD_SCHEDULED: Final = "PodScheduled"

_TRUE: Final = "True"
_FALSE: Final = "False"
_UNKNOWN_CONTAINER_STATUSES: Final = "UnknownContainerStatuses"
_POD_COMPLETED: Final = "PodCompleted"


def is_terminal_phase(phase: str) -> bool:
    """Tell whether a pod never leaves this phase."""
    return phase in {SUCCEEDED, FAILED}


def generate_api_pod_status(  # noqa: PLR0913 -- in kubelet, most of these are fields of one object
    pod: V1Pod,
    status: RuntimePodStatus,
    *,
    old: V1PodStatus | None,
    reasons: ReasonCache,
    probes: Probes,
    runtime_name: str,
    host_ip: str,
    now: datetime,
    terminal: bool = False,
) -> V1PodStatus:
    """Return a pod's status of what the runtime has of it, and of its status until now, `old`.

    `terminal` says that no container is started any more. `old` is not changed.
    """
    before = old or V1PodStatus()
    time = format_time(now.timestamp())
    sources = StatusSources(pod, status, reasons, runtime_name)
    ips = _ips(pod, status, before, host_ip)
    result = V1PodStatus(
        host_ip=host_ip,
        pod_ip=ips[0] if ips else "",
        pod_ips=ips,
        qos_class=qos_class(pod),
        start_time=before.start_time or time,
        container_statuses=container_statuses(sources, pod.spec.containers, before.container_statuses),
        init_container_statuses=init_container_statuses(sources, before.init_container_statuses),
        ephemeral_container_statuses=container_statuses(
            sources, pod.spec.ephemeral_containers, before.ephemeral_container_statuses
        ),
    )
    _set_phase(pod, status, result, before, terminal=terminal)
    if seconds_left(pod, before, now) <= 0:
        result.phase, result.reason = FAILED, DEADLINE_EXCEEDED
        result.message = "Pod was active on the node longer than the specified deadline"
    _set_started_and_ready(pod.spec.containers, result.container_statuses, probes)
    _set_started_and_ready(pod.spec.init_containers, result.init_container_statuses, probes, init=True)
    everything = [*result.init_container_statuses, *result.container_statuses]
    conditions = pod_conditions(pod, status, everything, result.phase, before.conditions)
    result.conditions = with_transition_times(conditions, before.conditions, time)
    return result


def _ips(pod: V1Pod, status: RuntimePodStatus, before: V1PodStatus, host_ip: str) -> list[str]:
    """Return the pod's addresses: a pod that has ended keeps those that it had (PLEG's getPodIPs)."""
    if status.ips:
        return list(status.ips)
    if pod.spec.host_network:
        return [host_ip] if host_ip else []
    return [] if any(each.state is PodSandboxState.READY for each in status.sandboxes) else list(before.pod_ips)


def _set_phase(
    pod: V1Pod, status: RuntimePodStatus, result: V1PodStatus, before: V1PodStatus, *, terminal: bool
) -> None:
    """Set the phase, and keep the reason of an unchanged one; a terminal phase is never left."""
    everything = [*result.container_statuses, *result.init_container_statuses]
    regular = {container.name for container in pod.spec.containers}
    started = any(container.metadata.name in regular for container in status.active())
    if is_terminal_phase(before.phase):
        result.phase = before.phase
    else:
        result.phase = pod_phase(pod, everything, terminal=terminal, started=started)
    if result.phase == before.phase:
        result.reason, result.message = before.reason, before.message


def seconds_left(pod: V1Pod, status: V1PodStatus | None, now: datetime) -> float:
    """Return the time until a pod's activeDeadlineSeconds are over, infinity without them (active_deadline.go)."""
    limit = pod.spec.active_deadline_seconds
    if limit is None or status is None or not status.start_time or is_terminal_phase(status.phase):
        return math.inf
    return limit - (now - datetime.fromisoformat(status.start_time)).total_seconds()


def _set_started_and_ready(
    containers: Sequence[V1Container], statuses: Sequence[V1ContainerStatus], probes: Probes, *, init: bool = False
) -> None:
    """Set `started` and `ready` by probe results (the probe manager's UpdatePodStatus).

    A container with a probe that has no result yet is not started, or not ready; an ordinary init container is ready
    when it has ended with 0.
    """
    by_name = {container.name: container for container in containers}
    for status in statuses:
        container = by_name[status.name]
        status.started = _is_started(container, status, probes)
        if init and not container.is_sidecar:
            status.ready = status.state.terminated is not None and status.state.terminated.exit_code == 0
        else:
            is_ready = probes.readiness.get(_runtime_id(status)) is ProbeResult.SUCCESS
            status.ready = status.started and (container.readiness_probe is None or is_ready)


def _is_started(container: V1Container, status: V1ContainerStatus, probes: Probes) -> bool:
    if status.state.running is None:
        return False
    result = probes.startup.get(_runtime_id(status))
    if result is not None:
        return result is ProbeResult.SUCCESS
    # After kubelet's own restart, `started` is that of its former run.
    return bool(status.started) or container.startup_probe is None


def _runtime_id(status: V1ContainerStatus) -> str:
    return status.container_id.partition("://")[2]


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
        elif not (status.started if container.is_sidecar else status.ready):
            incomplete.append(container.name)
    if phase == SUCCEEDED and not unknown:
        return V1PodCondition(type=INITIALIZED, status=_TRUE, reason=_POD_COMPLETED)
    regular = (by_name.get(container.name) for container in pod.spec.containers)
    if any(status and (status.state.running or status.state.terminated) for status in regular):
        return V1PodCondition(type=INITIALIZED, status=_TRUE)
    message = _containers_message(unknown, "incomplete", incomplete)
    if not message or any(condition.type == INITIALIZED and condition.status == _TRUE for condition in old):
        return V1PodCondition(type=INITIALIZED, status=_TRUE)
    return V1PodCondition(type=INITIALIZED, status=_FALSE, reason="ContainersNotInitialized", message=message)


def containers_ready(pod: V1Pod, statuses: Sequence[V1ContainerStatus], phase: str) -> V1PodCondition:
    """Return ContainersReady: all regular containers and sidecars are ready (GenerateContainersReadyCondition)."""
    if not statuses:
        return V1PodCondition(type=CONTAINERS_READY, status=_FALSE, reason=_UNKNOWN_CONTAINER_STATUSES)
    by_name = {status.name: status for status in statuses}
    names = [container.name for container in (*pod.spec.sidecars(), *pod.spec.containers)]
    unknown = [name for name in names if name not in by_name]
    unready = [name for name in names if name in by_name and not by_name[name].ready]
    if phase == SUCCEEDED and not unknown:
        return V1PodCondition(type=CONTAINERS_READY, status=_FALSE, reason=_POD_COMPLETED)
    if phase == FAILED:
        return V1PodCondition(type=CONTAINERS_READY, status=_FALSE, reason="PodFailed")
    if message := _containers_message(unknown, "unready", unready):
        return V1PodCondition(type=CONTAINERS_READY, status=_FALSE, reason="ContainersNotReady", message=message)
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
    before = {(condition.type, condition.status): condition.last_transition_time for condition in old}
    timed = [condition.copy() for condition in conditions]
    for condition in timed:
        condition.last_transition_time = before.get((condition.type, condition.status), now)
    return timed


def _containers_message(unknown: Sequence[str], flaw: str, flawed: Sequence[str]) -> str:
    parts = [("unknown", unknown), (flaw, flawed)]
    return ", ".join(f"containers with {word} status: {format_strings(names)}" for word, names in parts if names)


def unattended_status(pod: V1Pod, told: V1PodStatus, service: RuntimeService) -> V1PodStatus:
    """Return the status at this moment of a pod without a kubelet; `told` is the one that kubelet told last.

    Containers go on and end without a kubelet, but nothing restarts or probes them. One that still runs keeps the
    results of its probes. Raises RuntimeServiceError, OSError.
    """
    if is_terminal_phase(told.phase) or not told.start_time:
        return told
    undated = pod.copy()
    undated.spec.active_deadline_seconds = None  # a kubelet would end the pod; without one it goes on
    probes, reasons = _kept(pod, told)
    return generate_api_pod_status(
        undated,
        runtime_pod_status(service, pod.metadata.uid),
        old=told,
        reasons=reasons,
        probes=probes,
        runtime_name=service.version().runtime_name,
        host_ip=told.host_ip,
        now=datetime.now(UTC),
    )


def _kept(pod: V1Pod, told: V1PodStatus) -> tuple[Probes, ReasonCache]:
    """Return the results and reasons that a status was made of, by ID of the container and by its name."""
    probes, reasons = Probes(ProbeResults(), ProbeResults(), ProbeResults()), ReasonCache()
    uid = pod.metadata.uid
    for each in [*told.container_statuses, *told.init_container_statuses]:
        container_id = each.container_id.partition("://")[2]
        for results, is_well in ((probes.startup, each.started), (probes.readiness, each.ready)):
            results.set(container_id, uid, ProbeResult.SUCCESS if is_well else ProbeResult.FAILURE)
        if each.state.waiting is not None and each.container_id:
            reasons.set(uid, each.name, each.state.waiting.reason, each.state.waiting.message)
    return probes, reasons
