"""Pods as `kubectl get pods` shows them."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.kubelet.v1 import V1Pod
    from harness.kubelet.v1_status import V1ContainerStatus, V1PodStatus

POD_HEADINGS = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP")

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def pod_row(pod: "V1Pod", status: "V1PodStatus") -> list[str]:
    """Return the cells of a pod."""
    statuses = status.container_statuses
    return [
        pod.metadata.namespace,
        pod.metadata.name,
        f"{sum(each.ready for each in statuses)}/{len(pod.spec.containers)}",
        status_word(pod, status),
        str(sum(each.restart_count for each in statuses)),
        age(status.start_time),
        status.pod_ip,
    ]


def status_word(pod: "V1Pod", status: "V1PodStatus") -> str:
    """Return one word on a pod (kubectl's printPod): its phase, or the reason why a container does not run."""
    if pod.metadata.deletion_timestamp:
        return "Terminating"
    initial = len(pod.spec.init_containers)
    for number, each in enumerate(status.init_container_statuses):
        terminated, waiting = each.state.terminated, each.state.waiting
        if terminated is not None and terminated.exit_code == 0:
            continue
        if each.state.running is not None and each.started and _is_sidecar(pod, each.name):
            continue
        if terminated is not None:
            return f"Init:{terminated.reason or f'ExitCode:{terminated.exit_code}'}"
        if waiting is not None and waiting.reason not in {"", "PodInitializing"}:
            return f"Init:{waiting.reason}"
        return f"Init:{number}/{initial}"
    word = status.reason or status.phase or "Pending"
    for each in reversed(status.container_statuses):
        word = _container_word(each) or word
    if word == "Completed" and any(each.state.running is not None for each in status.container_statuses):
        return "Running" if all(each.ready for each in status.container_statuses) else "NotReady"
    return word


def age(time: str) -> str:
    """Return how long ago a time was, in its two largest units; empty for no time."""
    if not time:
        return ""
    left = max(0, int((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()))
    parts = []
    for seconds, unit in _UNITS:
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"


def _container_word(each: "V1ContainerStatus") -> str:
    if each.state.waiting is not None:
        return each.state.waiting.reason
    terminated = each.state.terminated
    if terminated is not None:
        return terminated.reason or f"ExitCode:{terminated.exit_code}"
    return ""


def _is_sidecar(pod: "V1Pod", name: str) -> bool:
    from harness.kubelet.pod_containers import is_sidecar

    return any(each.name == name and is_sidecar(each) for each in pod.spec.init_containers)
