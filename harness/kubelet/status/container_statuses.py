"""The statuses of a pod's containers, made of those in the runtime (kubelet's convertToAPIContainerStatuses)."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from api.container import V1Container
from api.formats import format_time
from api.pod import V1Pod
from api.status import (
    V1ContainerState,
    V1ContainerStatus,
    V1ContainerUser,
    V1LinuxUser,
    V1StateRunning,
    V1StateTerminated,
    V1StateWaiting,
)
from harness.cri.messages import ContainerState, ContainerStatus
from harness.kubelet.labels import RESTART_COUNT
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus
from harness.kubelet.status.start_errors import ReasonCache
from harness.kubelet.sync.container_restart import (
    any_regular_container,
    has_succeeded,
    should_container_be_restarted,
)

CONTAINER_CREATING: Final = "ContainerCreating"
POD_INITIALIZING: Final = "PodInitializing"
CONTAINER_STATUS_UNKNOWN: Final = "ContainerStatusUnknown"

_LOST_EXIT_CODE: Final = 137
"""kubelet's code for a container whose end it has not seen: as if by SIGKILL."""
_NS: Final = 1_000_000_000


class StatusSources(NamedTuple):
    """The sources of the statuses of a pod's containers. `runtime_name` begins container IDs."""

    pod: V1Pod
    status: RuntimePodStatus
    reasons: ReasonCache
    runtime_name: str


def container_statuses(
    sources: StatusSources, containers: Iterable[V1Container], old: Sequence[V1ContainerStatus]
) -> list[V1ContainerStatus]:
    """Return the statuses of regular or ephemeral containers, by name; `old` are those of the last time."""
    statuses = [_status(sources, container, old) for container in containers]
    return sorted(statuses, key=lambda status: status.name)


def init_container_statuses(sources: StatusSources, old: Sequence[V1ContainerStatus]) -> list[V1ContainerStatus]:
    """Return the statuses of init containers and sidecars, in the manifest's order; `old` are those of the last time.

    An init container that ended with 0 stays so. Its status is made up if regular containers show that it has ended,
    and the runtime has removed it.
    """
    pod, runtime = sources.pod, sources.status
    initialized = any_regular_container(pod, runtime, *(set(ContainerState) - {ContainerState.UNKNOWN}))
    statuses: list[V1ContainerStatus] = []
    for container in pod.spec.init_containers:
        status = _from_runtime(sources, container, old)
        vanished = runtime.newest(container.name) is None
        if vanished and initialized and not container.is_sidecar and status.state.waiting is not None:
            status.state = V1ContainerState(terminated=_assumed_success())
        elif not has_succeeded(container, runtime):
            _apply_reason(sources, container, status)
        statuses.append(status)
    return statuses


def lost_container() -> V1StateTerminated:
    """Return the end of a container whose end nobody has seen."""
    return V1StateTerminated(
        exit_code=_LOST_EXIT_CODE,
        reason=CONTAINER_STATUS_UNKNOWN,
        message="The container could not be located when the pod was terminated",
    )


def _assumed_success() -> V1StateTerminated:
    return V1StateTerminated(
        exit_code=0,
        reason="Completed",
        message="Unable to get init container status from container runtime and pod has been initialized, "
        "treat it as exited normally",
    )


def _status(sources: StatusSources, container: V1Container, old: Sequence[V1ContainerStatus]) -> V1ContainerStatus:
    status = _from_runtime(sources, container, old)
    _apply_reason(sources, container, status)
    return status


def _from_runtime(
    sources: StatusSources, container: V1Container, old: Sequence[V1ContainerStatus]
) -> V1ContainerStatus:
    """Return a container's status: the newest attempt is its state, and the one before its last state."""
    before = next((status for status in old if status.name == container.name), None)
    attempts = sources.status.of(container.name)
    if not attempts:
        return _without_attempt(sources.pod, container, before)
    status = _converted(sources, attempts[0], before)
    status.resources, status.allocated_resources = container.resources, dict(container.resources.requests)
    if len(attempts) > 1:
        status.last_state = _converted(sources, attempts[1], before).state
    return status


def _without_attempt(pod: V1Pod, container: V1Container, before: V1ContainerStatus | None) -> V1ContainerStatus:
    """Return the status of a container that the runtime does not know, or not any more."""
    if before is not None and before.state.terminated is not None:
        return before.copy()
    reason = POD_INITIALIZING if pod.spec.init_containers else CONTAINER_CREATING
    status = V1ContainerStatus(
        name=container.name, image=container.image, state=V1ContainerState(waiting=V1StateWaiting(reason=reason))
    )
    if before is None:
        return status
    status.restart_count = before.restart_count
    status.last_state = before.last_state
    if before.state.running is not None and before.last_state.terminated is None:
        # Without a last state the pod would be Pending, as if the container had never run.
        end = lost_container()
        end.message = "The container could not be located when the pod was deleted.  The container used to be Running"
        status.last_state = V1ContainerState(terminated=end)
        if not pod.metadata.deletion_timestamp:
            status.restart_count += 1
    return status


def _converted(sources: StatusSources, attempt: ContainerStatus, before: V1ContainerStatus | None) -> V1ContainerStatus:
    container_id = f"{sources.runtime_name}://{attempt.id}"
    count = attempt.annotations.get(RESTART_COUNT, "")  # missing if another program has created it
    status = V1ContainerStatus(
        name=attempt.metadata.name,
        restart_count=int(count) if count.isascii() and count.isdigit() else attempt.metadata.attempt,
        image=attempt.image,
        image_id=attempt.image_ref,
        container_id=container_id,
        state=_state(attempt, container_id),
    )
    if attempt.user is not None:
        status.user = V1ContainerUser(linux=V1LinuxUser(**vars(attempt.user)))
    if before is not None:
        _carry_over(status, attempt, before)
    return status


def _carry_over(status: V1ContainerStatus, attempt: ContainerStatus, before: V1ContainerStatus) -> None:
    """Keep what the runtime may have forgotten: restarts are counted up only, and the last end stays known."""
    status.restart_count = max(status.restart_count, before.restart_count)
    if before.state.terminated is not None and before.container_id != status.container_id:
        status.last_state = V1ContainerState(terminated=before.state.terminated)
    elif before.last_state.terminated is not None:
        status.last_state = V1ContainerState(terminated=before.last_state.terminated)
    if attempt.state is ContainerState.RUNNING:
        if before.state.terminated is not None:
            status.restart_count = max(status.restart_count, before.restart_count + 1)
        if before.container_id == status.container_id:
            status.started = before.started
    elif attempt.state is ContainerState.UNKNOWN and before.state.running is not None:
        # To wait would say that the container has never run, and it would run twice.
        status.state = V1ContainerState(terminated=lost_container())
        status.restart_count = before.restart_count + 1


def _state(attempt: ContainerStatus, container_id: str) -> V1ContainerState:
    if attempt.state is ContainerState.RUNNING:
        return V1ContainerState(running=V1StateRunning(started_at=_time(attempt.started_at)))
    if attempt.state is ContainerState.EXITED:
        return V1ContainerState(
            terminated=V1StateTerminated(
                exit_code=attempt.exit_code,
                reason=attempt.reason,
                message=attempt.message,
                started_at=_time(attempt.started_at),
                finished_at=_time(attempt.finished_at),
                container_id=container_id,
            )
        )
    return V1ContainerState(waiting=V1StateWaiting())


def _apply_reason(sources: StatusSources, container: V1Container, status: V1ContainerStatus) -> None:
    """Have a container that is to be started, and could not be, wait with the reason for that."""
    if not should_container_be_restarted(sources.pod, container, sources.status):
        return
    reason = sources.reasons.get(sources.pod.metadata.uid, container.name)
    if reason is None:
        return
    if status.state.terminated is not None:
        status.last_state = status.state
    status.state = V1ContainerState(waiting=V1StateWaiting(reason=reason.reason, message=reason.message))


def _time(nanoseconds: int) -> str:
    return format_time(nanoseconds / _NS) if nanoseconds else ""
