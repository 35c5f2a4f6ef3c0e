"""The phase of a pod, from the statuses of its containers (kubelet's getPhase)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from api.pod import V1Pod
from api.status import FAILED, PENDING, RUNNING, SUCCEEDED, V1ContainerStatus
from harness.kubelet.labels import is_static
from harness.kubelet.sync.container_restart import restarts_after_exit


class _Init(NamedTuple):
    """How many init containers are in which state; sidecars are not counted."""

    pending: int
    failed: int
    """Have failed and are not started again."""


class _Counts(NamedTuple):
    """How many containers are in which state; sidecars count in the first four."""

    unknown: int = 0
    running: int = 0
    waiting: int = 0
    """Have never run."""
    pending_sidecars: int = 0
    stopped: int = 0
    """Have run and do not; they may wait for another start."""
    restarting: int = 0
    """Those of `stopped` that are started again."""
    succeeded: int = 0

    def plus(self, **counts: int) -> "_Counts":
        return self._replace(**{name: getattr(self, name) + count for name, count in counts.items()})


def pod_phase(
    pod: V1Pod, statuses: Sequence[V1ContainerStatus], *, terminal: bool = False, started: bool = False
) -> str:
    """Return Pending, Running, Succeeded or Failed.

    `terminal` says that no container is started any more; kubelet does not look at it for static pods. `started` says
    that a regular container exists in the newest sandbox: sidecars that start again do not make the pod Pending then.
    """
    by_name = {status.name: status for status in statuses}
    init = _init_containers(pod, by_name)
    if init.failed:
        return FAILED
    counts = _regular_containers(pod, by_name, _sidecars(pod, by_name))
    if init.pending or (counts.pending_sidecars and not started) or counts.waiting:
        return PENDING
    if counts.unknown:
        return PENDING
    if counts.running:
        return RUNNING
    return _phase_of_stopped(counts, terminal=terminal and not is_static(pod))


def _phase_of_stopped(counts: _Counts, *, terminal: bool) -> str:
    if not counts.stopped:
        return PENDING
    if counts.restarting and not terminal:
        return RUNNING
    return SUCCEEDED if counts.stopped == counts.succeeded else FAILED


def _init_containers(pod: V1Pod, by_name: Mapping[str, V1ContainerStatus]) -> _Init:
    pending = failed = 0
    for container in pod.spec.init_containers:
        if container.is_sidecar:
            continue
        status = by_name.get(container.name)
        ended = None
        if status is not None:
            ended = status.state.terminated or (status.last_state.terminated if status.state.waiting else None)
        if ended is None:
            pending += 1
        elif ended.exit_code != 0 and not restarts_after_exit(pod, container, ended.exit_code):
            failed += 1
    return _Init(pending, failed)


def _sidecars(pod: V1Pod, by_name: Mapping[str, V1ContainerStatus]) -> _Counts:
    """Count sidecars; one that has ended counts nowhere."""
    counts = _Counts()
    for container in pod.spec.sidecars():
        status = by_name.get(container.name)
        if status is None:
            counts = counts.plus(unknown=1)
        elif status.state.running is not None:
            counts = counts.plus(running=1, pending_sidecars=0 if status.started else 1)
        elif status.state.terminated is not None:
            pass
        elif status.state.waiting is None:
            counts = counts.plus(unknown=1, pending_sidecars=1)
        elif status.last_state.terminated is None:
            counts = counts.plus(waiting=1, pending_sidecars=1)
    return counts


def _regular_containers(pod: V1Pod, by_name: Mapping[str, V1ContainerStatus], counts: _Counts) -> _Counts:
    for container in pod.spec.containers:
        status = by_name.get(container.name)
        state = status.state if status is not None else None
        if status is None or state is None or not (state.running or state.terminated or state.waiting):
            counts = counts.plus(unknown=1)
        elif state.running is not None:
            counts = counts.plus(running=1)
        else:
            ended = state.terminated or status.last_state.terminated
            if ended is None:
                counts = counts.plus(waiting=1)
                continue
            again = restarts_after_exit(pod, container, ended.exit_code)
            # Only a container that does not wait for another start has succeeded.
            success = state.terminated is not None and ended.exit_code == 0
            counts = counts.plus(stopped=1, restarting=int(again), succeeded=int(success))
    return counts
