"""The status of a pod as the API has it (kubelet's generateAPIPodStatus)."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from harness.cri.messages import SANDBOX_READY
from harness.kubelet.container_statuses import StatusSources, container_statuses, init_container_statuses
from harness.kubelet.formats import format_time
from harness.kubelet.pod_conditions import pod_conditions, with_transition_times
from harness.kubelet.pod_containers import is_sidecar
from harness.kubelet.pod_phase import pod_phase
from harness.kubelet.pod_resources import qos_class
from harness.kubelet.probe_results import ProbeResult, Probes
from harness.kubelet.runtime_pod_status import RuntimePodStatus
from harness.kubelet.start_errors import ReasonCache
from harness.kubelet.v1 import V1Pod
from harness.kubelet.v1_container import V1Container
from harness.kubelet.v1_status import FAILED, SUCCEEDED, V1ContainerStatus, V1PodStatus

DEADLINE_EXCEEDED: Final = "DeadlineExceeded"


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
    return [] if any(each.state is SANDBOX_READY for each in status.sandboxes) else list(before.pod_ips)


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
        if init and not is_sidecar(container):
            status.ready = status.state.terminated is not None and status.state.terminated.exit_code == 0
        else:
            status.ready = status.started and _is_ready(container, status, probes)


def _is_started(container: V1Container, status: V1ContainerStatus, probes: Probes) -> bool:
    if status.state.running is None:
        return False
    result = probes.startup.get(_runtime_id(status))
    if result is not None:
        return result is ProbeResult.SUCCESS
    # After kubelet's own restart, `started` is that of its former run.
    return bool(status.started) or container.startup_probe is None


def _is_ready(container: V1Container, status: V1ContainerStatus, probes: Probes) -> bool:
    return container.readiness_probe is None or probes.readiness.get(_runtime_id(status)) is ProbeResult.SUCCESS


def _runtime_id(status: V1ContainerStatus) -> str:
    return status.container_id.partition("://")[2]
