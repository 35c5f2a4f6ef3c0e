"""Which init containers and sidecars are to be started or ended (kubelet's computeInitContainerActions).

Init containers run one after the other. The newest that the runtime still knows says how far the pod has come: older
ones may have been removed, so the list is examined from its end. Sidecars before it are kept running.
"""

from typing import NamedTuple

from harness.cri.messages import (
    CONTAINER_CREATED,
    CONTAINER_EXITED,
    CONTAINER_RUNNING,
    ContainerStatus,
)
from harness.kubelet.container_restart import init_container_failed, restarts_after_kill, should_container_be_restarted
from harness.kubelet.kill_reasons import (
    LIVENESS_PROBE,
    STARTUP_PROBE,
    ContainerToKill,
    definition_changed,
    unknown_state,
)
from harness.kubelet.pod_containers import is_sidecar
from harness.kubelet.probe_results import ProbeResult, Probes
from harness.kubelet.runtime_pod_status import RuntimePodStatus
from harness.kubelet.v1 import V1Pod
from harness.kubelet.v1_container import V1Container


class InitContainerActions(NamedTuple):
    """The actions; `to_start` are indexes in ascending order.

    `initialized` says that regular containers may start; `kill_pod` that an init container has failed for good.
    """

    initialized: bool = False
    kill_pod: bool = False
    to_start: tuple[int, ...] = ()
    to_kill: tuple[ContainerToKill, ...] = ()


class _Step(NamedTuple):
    """The wish of one init container."""

    start: bool = False
    done: bool = False
    """The container lets the next one start."""
    fatal: bool = False
    kill: ContainerToKill | None = None


_FATAL = _Step(fatal=True)
_START = _Step(start=True)
_DONE = _Step(done=True)
_WAIT = _Step()


def init_container_actions(pod: V1Pod, status: RuntimePodStatus, probes: Probes) -> InitContainerActions:
    """Compare a pod's init containers with what the runtime has of them."""
    containers = pod.spec.init_containers
    if not containers:
        return InitContainerActions(initialized=True)
    initialized = _regular_container_exists(pod, status)
    passed = initialized  # a later init container, or a regular one, shows that this one was done before
    to_start: list[int] = []
    to_kill: list[ContainerToKill] = []
    for index in reversed(range(len(containers))):
        step = _step(pod, containers[index], status, probes, passed=passed)
        if step is None:
            continue
        if step.fatal:
            return InitContainerActions(kill_pod=True, to_kill=tuple(to_kill))
        if step.done and index == len(containers) - 1:
            initialized = True
        elif step.done and not passed:
            to_start.append(index + 1)
        if step.kill is not None:
            to_kill.append(step.kill)
        if step.start:
            to_start.append(index)
        passed = True
    if not passed:
        to_start.append(0)
    return InitContainerActions(initialized, to_start=tuple(reversed(to_start)), to_kill=tuple(to_kill))


def _step(
    pod: V1Pod, container: V1Container, status: RuntimePodStatus, probes: Probes, *, passed: bool
) -> _Step | None:
    """Return what an init container asks for; None if it has nothing to say."""
    newest = status.newest(container.name)
    if is_sidecar(container):
        if newest is None:
            return _START if passed else None
        return _sidecar(container, newest, probes)
    return None if newest is None or passed else _init(pod, container, status, newest)


def _regular_container_exists(pod: V1Pod, status: RuntimePodStatus) -> bool:
    """Tell whether a regular container is created or runs.

    Exited ones do not count: after a reboot all have exited, and belong to an earlier sandbox.
    """
    newest = (status.newest(container.name) for container in pod.spec.containers)
    return any(found is not None and found.state in {CONTAINER_CREATED, CONTAINER_RUNNING} for found in newest)


def _init(pod: V1Pod, container: V1Container, status: RuntimePodStatus, newest: ContainerStatus) -> _Step:
    """Return what an ordinary init container asks for, which must end with 0 before the next one starts."""
    if newest.state is CONTAINER_CREATED:
        return _START  # its start has failed, or kubelet ended between the two calls
    if newest.state is CONTAINER_RUNNING:
        return _WAIT
    if newest.state is CONTAINER_EXITED:
        if not init_container_failed(newest):
            return _DONE
        return _START if should_container_be_restarted(pod, container, status) else _FATAL
    if restarts_after_kill(pod, container):
        return _Step(start=True, kill=unknown_state(newest, "Init container"))
    return _FATAL


def _sidecar(container: V1Container, newest: ContainerStatus, probes: Probes) -> _Step:
    """Return what a sidecar asks for, which is always started again."""
    if newest.state in {CONTAINER_CREATED, CONTAINER_EXITED}:
        return _START
    if newest.state is not CONTAINER_RUNNING:
        return _Step(start=True, kill=unknown_state(newest, "Init container"))
    return _running_sidecar(container, newest, probes)


def _running_sidecar(container: V1Container, newest: ContainerStatus, probes: Probes) -> _Step:
    """Return what a sidecar that runs asks for: its startup probe, and no other, holds the next container back."""
    name = container.name
    if container.startup_probe is not None:
        startup = probes.startup.get(newest.id)
        if startup is ProbeResult.FAILURE:
            kill = ContainerToKill(newest.id, name, f"Init container {name} failed startup probe", STARTUP_PROBE)
            return _Step(start=True, kill=kill)
        if startup is not ProbeResult.SUCCESS:
            return _WAIT
    if definition_changed(container, newest):
        kill = ContainerToKill(newest.id, name, f"Init container {name} definition changed")
        return _Step(start=True, done=True, kill=kill)
    if probes.liveness.get(newest.id) is ProbeResult.FAILURE:
        kill = ContainerToKill(newest.id, name, f"Init container {name} failed liveness probe", LIVENESS_PROBE)
        return _Step(start=True, done=True, kill=kill)
    return _DONE
