"""The status of a pod while no kubelet works on its node: the last one told, with what the runtime has now.

Containers go on and end without a kubelet, but nothing restarts or probes them, and no status is written.
"""

from datetime import UTC, datetime

from api.pod import V1Pod
from api.status import V1PodStatus
from harness.cri.service import RuntimeService
from harness.kubelet.probes.results import ProbeResult, ProbeResults, Probes
from harness.kubelet.status.api_status import generate_api_pod_status, is_terminal_phase
from harness.kubelet.status.runtime_pod_status import runtime_pod_status
from harness.kubelet.status.start_errors import ReasonCache


def unattended_status(pod: V1Pod, told: V1PodStatus, service: RuntimeService) -> V1PodStatus:
    """Return the pod's status at this moment; `told` is the one that kubelet told last, and is not changed.

    A container that still runs keeps the results of its probes. Raises RuntimeServiceError, OSError.
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
