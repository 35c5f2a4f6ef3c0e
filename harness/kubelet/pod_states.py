"""The life cycle of a pod's worker (kubelet's pod_workers.go). No way leads back: a UID runs once.

    --> sync  <-- SYNCED, FAILED
        |  |
        |  +-- ENDED, DELETED, KILLED --> terminating  <-- FAILED, DELETED, KILLED
        |                                 |         |
        |                              STOPPED      |
        |                                 v         |
        |                            terminated  <--|-- FAILED, DELETED, KILLED
        |                                 |         |
        |                              CLEANED  ORPHAN_STOPPED
        |                                 v         |
        +-- NEVER_STARTED -----------> finished <---+

Each state but the last repeats one function until that succeeds: SyncPod, SyncTerminatingPod, SyncTerminatedPod. A
finished worker ignores requests. Housekeeping forgets it when its manifest is gone, or wanted with the same UID again.
"""

from enum import StrEnum
from typing import Final

from harness.cri.messages import CONTAINER_RUNNING, SANDBOX_READY
from harness.kubelet.runtime_pod_status import RuntimePodStatus
from harness.kubelet.v1_status import FAILED, SUCCEEDED
from harness.transitions import Transitions

__all__ = ["POD_LIFE", "PodEvent", "PodWorkerState", "first_state"]


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
    DELETED = "DELETED"
    """The pod has a deletion timestamp, or the runtime has a pod that no manifest wants."""
    KILLED = "KILLED"
    """kubelet ends the pod: its manifest is gone, or the pod is evicted."""
    NEVER_STARTED = "NEVER_STARTED"
    """A static pod that waited for another one of its name was to end before its turn came."""
    STOPPED = "STOPPED"
    """SyncTerminatingPod has succeeded: no container runs."""
    ORPHAN_STOPPED = "ORPHAN_STOPPED"
    """SyncTerminatingRuntimePod has succeeded: there is no manifest, and no status to write."""
    CLEANED = "CLEANED"
    """SyncTerminatedPod has succeeded."""
    FAILED = "FAILED"
    """The state's function has raised an error, or was cancelled by a request."""


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
        (_SYNC, PodEvent.DELETED): _TERMINATING,
        (_SYNC, PodEvent.KILLED): _TERMINATING,
        (_SYNC, PodEvent.NEVER_STARTED): _FINISHED,
        (_TERMINATING, PodEvent.FAILED): _TERMINATING,
        (_TERMINATING, PodEvent.DELETED): _TERMINATING,
        (_TERMINATING, PodEvent.KILLED): _TERMINATING,
        (_TERMINATING, PodEvent.STOPPED): _TERMINATED,
        (_TERMINATING, PodEvent.ORPHAN_STOPPED): _FINISHED,
        (_TERMINATED, PodEvent.FAILED): _TERMINATED,
        (_TERMINATED, PodEvent.DELETED): _TERMINATED,
        (_TERMINATED, PodEvent.KILLED): _TERMINATED,
        (_TERMINATED, PodEvent.CLEANED): _FINISHED,
    },
)
"""The drawing above. In a later state, DELETED and KILLED can only shorten the grace period."""


def first_state(phase: str, status: RuntimePodStatus) -> PodWorkerState:
    """Return the state for a pod that has no worker yet, of the phase in its stored status.

    A pod that has Succeeded or Failed, and of which nothing runs, was stopped by an earlier run of kubelet.
    """
    runs = any(container.state is CONTAINER_RUNNING for container in status.containers)
    ready = any(sandbox.state is SANDBOX_READY for sandbox in status.sandboxes)
    return _TERMINATED if phase in {SUCCEEDED, FAILED} and not runs and not ready else _SYNC
