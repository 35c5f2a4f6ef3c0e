"""A bare pod, which `add` makes, as the API shows pods: names, phase and addresses, and no containers."""

from api.pod import V1Pod
from api.status import PENDING, RUNNING, V1PodCondition, V1PodStatus
from harness.runtime.pods import Pod

_UNKNOWN = "Unknown"
"""The phase of a pod whose node has lost it (PodUnknown)."""


def bare_pod(pod: Pod, state: str, node_name: str) -> tuple[V1Pod, V1PodStatus]:
    """Return the pod and its status; `state` is that of `list` (harness.runtime.pod_view)."""
    metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    described = V1Pod.decode({"metadata": metadata, "spec": {"nodeName": node_name}})
    ips = [str(ip.address.ip) for network in pod.networks[:1] for ip in network.decoded().ips]
    status = V1PodStatus(
        phase={"ready": RUNNING, "incomplete": PENDING}.get(state, _UNKNOWN),
        pod_ip=next(iter(ips), ""),
        pod_ips=ips,
        start_time=pod.created,
        conditions=[V1PodCondition(type="PodReadyToStartContainers", status=str(state == "ready"))],
    )
    return described, status
