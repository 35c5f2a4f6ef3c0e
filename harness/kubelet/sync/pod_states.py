"""The life cycle of a pod's worker (kubelet's pod_workers.go). No way leads back: a UID runs once.

    --> sync  <-- SYNCED, FAILED
        |  |
        |  +-- ENDED, KILLED ----> terminating  <-- FAILED
        |                               |
        |                            STOPPED
        |                               v
        |                          terminated  <-- FAILED
        |                               |
        |                            CLEANED
        |                               v
        +-- NEVER_STARTED ---------> finished

A pod that only the runtime has begins with terminating, and one that ended under an earlier kubelet with terminated.
Each state but the last repeats one function until that succeeds: SyncPod, SyncTerminatingPod, SyncTerminatedPod. A
finished worker ignores requests. Housekeeping forgets it when its manifest is gone, or wanted with the same UID again.
"""

from enum import StrEnum
from typing import Final

from api.status import FAILED, SUCCEEDED
from harness.cri.messages import ContainerState, PodSandboxState
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus
from harness.transitions import Transitions


class PodWorkerState(StrEnum):
    """The task of a pod's worker (kubelet's PodWorkerState, and its flag `finished`)."""

    SYNC = "sync"
    """Starts containers, and starts them again."""
    TERMINATING = "terminating"
    """Starts none any more, and ends those that run."""
    TERMINATED = "terminated"
    """No container runs; volumes and cgroups are taken down."""
    FINISHED = "finished"


class PodEvent(StrEnum):
    """A request to a worker, or the outcome of its function."""

    SYNCED = "SYNCED"
    """SyncPod has succeeded."""
    ENDED = "ENDED"
    """SyncPod says that the pod has Succeeded or Failed, or its status says so."""
    KILLED = "KILLED"
    """The pod is not wanted any more: its manifest is gone, or `delete` has named it."""
    NEVER_STARTED = "NEVER_STARTED"
    """A static pod that waited for another one of its name was to end before its turn came."""
    STOPPED = "STOPPED"
    """SyncTerminatingPod has succeeded: no container runs."""
    CLEANED = "CLEANED"
    """SyncTerminatedPod has succeeded."""
    FAILED = "FAILED"
    """The state's function has raised an error."""


_SYNC: Final = PodWorkerState.SYNC
_TERMINATING: Final = PodWorkerState.TERMINATING
_TERMINATED: Final = PodWorkerState.TERMINATED
_FINISHED: Final = PodWorkerState.FINISHED

POD_LIFE: Final = Transitions(
    _SYNC,
    {
        (_SYNC, PodEvent.SYNCED): _SYNC,
        (_SYNC, PodEvent.FAILED): _SYNC,
        (_SYNC, PodEvent.ENDED): _TERMINATING,
        (_SYNC, PodEvent.KILLED): _TERMINATING,
        (_SYNC, PodEvent.NEVER_STARTED): _FINISHED,
        (_TERMINATING, PodEvent.FAILED): _TERMINATING,
        (_TERMINATING, PodEvent.STOPPED): _TERMINATED,
        (_TERMINATED, PodEvent.FAILED): _TERMINATED,
        (_TERMINATED, PodEvent.CLEANED): _FINISHED,
    },
)
"""The drawing above. A request to end a pod that is ending already can only shorten the grace period."""


def first_state(phase: str, status: RuntimePodStatus) -> PodWorkerState:
    """Return the state for a pod that has no worker yet, of the phase in its stored status.

    A pod that has Succeeded or Failed, and of which nothing runs, was stopped by an earlier run of kubelet.
    """
    runs = any(container.state is ContainerState.RUNNING for container in status.containers)
    ready = any(sandbox.state is PodSandboxState.READY for sandbox in status.sandboxes)
    return _TERMINATED if phase in {SUCCEEDED, FAILED} and not runs and not ready else _SYNC
