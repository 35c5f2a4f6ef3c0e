"""The phase of a pod, from the statuses of its containers (kubelet's getPhase)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from api.pod import V1Pod
from api.status import FAILED, PENDING, RUNNING, SUCCEEDED, V1ContainerStatus
from harness.kubelet.labels import is_static
from harness.kubelet.sync.container_restart import restarts_after_exit

_Counts: TypeAlias = Counter[str]
"""How many containers are in which state:

- `pending` and `failed`: init containers that are no sidecars; the failed ones are not started again;
- `unknown`, `running`, `waiting` (they have never run) and `pending_sidecars`, of regular containers and sidecars;
- `stopped`: regular containers that have run and do not; of these, `restarting` are started again, and `succeeded`.
"""


def pod_phase(
    pod: V1Pod, statuses: Sequence[V1ContainerStatus], *, terminal: bool = False, started: bool = False
) -> str:
    """Return Pending, Running, Succeeded or Failed.

    `terminal` says that no container is started any more; kubelet does not look at it for static pods. `started` says
    that a regular container exists in the newest sandbox: sidecars that start again do not make the pod Pending then.
    """
    by_name = {status.name: status for status in statuses}
    counts = _init_containers(pod, by_name) + _sidecars(pod, by_name) + _regular_containers(pod, by_name)
    if counts["failed"]:
        return FAILED
    if counts["pending"] or (counts["pending_sidecars"] and not started) or counts["waiting"] or counts["unknown"]:
        return PENDING
    if counts["running"]:
        return RUNNING
    if not counts["stopped"]:
        return PENDING
    if counts["restarting"] and not (terminal and not is_static(pod)):
        return RUNNING
    return SUCCEEDED if counts["stopped"] == counts["succeeded"] else FAILED


def _init_containers(pod: V1Pod, by_name: Mapping[str, V1ContainerStatus]) -> _Counts:
    counts = _Counts()
    for container in pod.spec.init_containers:
        if container.is_sidecar:
            continue
        status = by_name.get(container.name)
        ended = None
        if status is not None:
            ended = status.state.terminated or (status.last_state.terminated if status.state.waiting else None)
        if ended is None:
            counts["pending"] += 1
        elif ended.exit_code != 0 and not restarts_after_exit(pod, container, ended.exit_code):
            counts["failed"] += 1
    return counts


def _sidecars(pod: V1Pod, by_name: Mapping[str, V1ContainerStatus]) -> _Counts:
    """Count sidecars; one that has ended counts nowhere."""
    counts = _Counts()
    for container in pod.spec.sidecars():
        status = by_name.get(container.name)
        if status is None:
            counts["unknown"] += 1
        elif status.state.running is not None:
            counts["running"] += 1
            counts["pending_sidecars"] += not status.started
        elif status.state.terminated is None and status.state.waiting is None:
            counts.update(("unknown", "pending_sidecars"))
        elif status.state.terminated is None and status.last_state.terminated is None:
            counts.update(("waiting", "pending_sidecars"))
    return counts


def _regular_containers(pod: V1Pod, by_name: Mapping[str, V1ContainerStatus]) -> _Counts:
    counts = _Counts()
    for container in pod.spec.containers:
        status = by_name.get(container.name)
        state = status.state if status is not None else None
        if status is None or state is None or not (state.running or state.terminated or state.waiting):
            counts["unknown"] += 1
        elif state.running is not None:
            counts["running"] += 1
        elif (ended := state.terminated or status.last_state.terminated) is None:
            counts["waiting"] += 1
        else:
            counts["stopped"] += 1
            counts["restarting"] += restarts_after_exit(pod, container, ended.exit_code)
            # Only a container that does not wait for another start has succeeded.
            counts["succeeded"] += state.terminated is not None and ended.exit_code == 0
    return counts
