"""The actions that bring a pod's containers to the state in its manifest (kubelet's computePodActions).

Pure functions: `kuberuntime` carries the actions out.

Init containers run one after the other (computeInitContainerActions). The newest that the runtime still knows says how
far the pod has come: older ones may have been removed, so the list is examined from its end. Sidecars before it are
kept running.
"""

from typing import Final, NamedTuple

from api.container import V1Container
from api.pod import V1Pod
from harness.cri.messages import ContainerState, ContainerStatus
from harness.kubelet.labels import CONTAINER_HASH, container_hash
from harness.kubelet.probes.results import ProbeResult, Probes
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus, sandbox_change
from harness.kubelet.sync.container_restart import (
    NEVER,
    ON_FAILURE,
    any_regular_container,
    has_succeeded,
    init_container_failed,
    restarts_after_kill,
    should_container_be_restarted,
)

LIVENESS_PROBE: Final = "LivenessProbe"
STARTUP_PROBE: Final = "StartupProbe"
UNKNOWN: Final = "Unknown"


class ContainerToKill(NamedTuple):
    """A container to end: `message` is for its event Killing.

    `reason` is LIVENESS_PROBE or STARTUP_PROBE, whose own grace periods apply then, UNKNOWN, or empty.
    """

    container_id: str
    name: str
    message: str
    reason: str = ""


class PodActions(NamedTuple):
    """The actions, in the order of their fields; containers to start are indexes into the pod's lists.

    `kill_pod` ends all containers and sandboxes. `create_sandbox` makes a sandbox with the number `attempt`; else
    containers start in `sandbox_id`. `to_kill` ends single containers.
    """

    kill_pod: bool = False
    create_sandbox: bool = False
    sandbox_id: str = ""
    attempt: int = 0
    ephemeral_to_start: tuple[int, ...] = ()
    init_to_start: tuple[int, ...] = ()
    to_start: tuple[int, ...] = ()
    to_kill: tuple[ContainerToKill, ...] = ()


def compute_pod_actions(pod: V1Pod, status: RuntimePodStatus, probes: Probes) -> PodActions:
    """Compare a pod with what the runtime has of it, and with the results of its probes."""
    sandbox = sandbox_change(pod, status)
    actions = PodActions(sandbox.changed, sandbox.changed, sandbox.sandbox_id, sandbox.attempt)
    if sandbox.changed:
        return _from_the_start(pod, status, actions)
    ephemeral = tuple(
        index for index, container in enumerate(pod.spec.ephemeral_containers) if status.newest(container.name) is None
    )
    initialized, actions = _init_containers(pod, status, probes, actions._replace(ephemeral_to_start=ephemeral))
    return _regular_containers(pod, status, probes, actions) if initialized else actions


def _from_the_start(pod: V1Pod, status: RuntimePodStatus, actions: PodActions) -> PodActions:
    """Return the actions of a pod without a usable sandbox: everything is made again, unless the pod is done."""
    if pod.spec.restart_policy == NEVER and actions.attempt and status.containers:
        # Without containers no earlier sandbox came as far as a start, and the pod may still run once.
        return actions._replace(create_sandbox=False)
    to_start = tuple(
        index
        for index, container in enumerate(pod.spec.containers)
        if (container.restart_policy or pod.spec.restart_policy) != ON_FAILURE or not has_succeeded(container, status)
    )
    if pod.spec.containers and not to_start:
        return actions._replace(create_sandbox=False)
    if pod.spec.init_containers:
        return actions._replace(init_to_start=(0,))
    return actions._replace(to_start=to_start)


def _regular_containers(pod: V1Pod, status: RuntimePodStatus, probes: Probes, actions: PodActions) -> PodActions:
    """Add the actions of the regular containers of a pod that is initialised; without any, the pod is ended."""
    to_start: list[int] = []
    to_kill = list(actions.to_kill)
    kept = False
    for index, container in enumerate(pod.spec.containers):
        newest = status.newest(container.name)
        if newest is None or newest.state is not ContainerState.RUNNING:
            if should_container_be_restarted(pod, container, status):
                to_start.append(index)
                if newest is not None and newest.state is ContainerState.UNKNOWN:
                    to_kill.append(_unknown_state(newest, "Container"))
            continue
        kill, restart = _kill(pod, container, newest, probes)
        if kill is None:
            kept = True
            continue
        if restart:
            kill = kill._replace(message=f"{kill.message}, will be restarted")
            to_start.append(index)
        to_kill.append(kill)
    if not kept and not to_start:
        # Sidecars alone do not keep a pod alive.
        return actions._replace(kill_pod=True, init_to_start=(), to_kill=tuple(to_kill))
    return actions._replace(to_start=tuple(to_start), to_kill=tuple(to_kill))


def _kill(
    pod: V1Pod, container: V1Container, newest: ContainerStatus, probes: Probes
) -> tuple[ContainerToKill | None, bool]:
    """Return why a running container must end, None if it may stay, and whether it starts again then."""
    name = container.name
    if _definition_changed(container, newest):
        return ContainerToKill(newest.id, name, f"Container {name} definition changed"), True
    restart = restarts_after_kill(pod, container)
    if probes.liveness.get(newest.id) is ProbeResult.FAILURE:
        return ContainerToKill(newest.id, name, f"Container {name} failed liveness probe", LIVENESS_PROBE), restart
    if probes.startup.get(newest.id) is ProbeResult.FAILURE:
        return ContainerToKill(newest.id, name, f"Container {name} failed startup probe", STARTUP_PROBE), restart
    return None, False


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


def _init_containers(
    pod: V1Pod, status: RuntimePodStatus, probes: Probes, actions: PodActions
) -> tuple[bool, PodActions]:
    """Add the actions of the init containers; without any, or after them, regular containers may start."""
    containers = pod.spec.init_containers
    # Exited ones do not count: after a reboot all have exited, and belong to an earlier sandbox.
    begun = any_regular_container(pod, status, ContainerState.CREATED, ContainerState.RUNNING)
    initialized = not containers or begun
    passed = initialized  # a later init container, or a regular one, shows that this one was done before
    to_start: list[int] = []
    to_kill: list[ContainerToKill] = []
    for index in reversed(range(len(containers))):
        step = _step(pod, containers[index], status, probes, passed=passed)
        if step is None:
            continue
        if step.fatal:
            return False, actions._replace(kill_pod=True, to_kill=tuple(to_kill))
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
    return initialized, actions._replace(init_to_start=tuple(reversed(to_start)), to_kill=tuple(to_kill))


def _step(
    pod: V1Pod, container: V1Container, status: RuntimePodStatus, probes: Probes, *, passed: bool
) -> _Step | None:
    """Return what an init container asks for; None if it has nothing to say."""
    newest = status.newest(container.name)
    if container.is_sidecar:
        if newest is None:
            return _START if passed else None
        return _sidecar(container, newest, probes)
    return None if newest is None or passed else _init(pod, container, status, newest)


def _init(pod: V1Pod, container: V1Container, status: RuntimePodStatus, newest: ContainerStatus) -> _Step:
    """Return what an ordinary init container asks for, which must end with 0 before the next one starts."""
    if newest.state is ContainerState.CREATED:
        return _START  # its start has failed, or kubelet ended between the two calls
    if newest.state is ContainerState.RUNNING:
        return _WAIT
    if newest.state is ContainerState.EXITED:
        if not init_container_failed(newest):
            return _DONE
        return _START if should_container_be_restarted(pod, container, status) else _FATAL
    if restarts_after_kill(pod, container):
        return _Step(start=True, kill=_unknown_state(newest, "Init container"))
    return _FATAL


def _sidecar(container: V1Container, newest: ContainerStatus, probes: Probes) -> _Step:
    """Return what a sidecar asks for, which is always started again."""
    if newest.state in {ContainerState.CREATED, ContainerState.EXITED}:
        return _START
    if newest.state is not ContainerState.RUNNING:
        return _Step(start=True, kill=_unknown_state(newest, "Init container"))
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
    if _definition_changed(container, newest):
        kill = ContainerToKill(newest.id, name, f"Init container {name} definition changed")
        return _Step(start=True, done=True, kill=kill)
    if probes.liveness.get(newest.id) is ProbeResult.FAILURE:
        kill = ContainerToKill(newest.id, name, f"Init container {name} failed liveness probe", LIVENESS_PROBE)
        return _Step(start=True, done=True, kill=kill)
    return _DONE


def _definition_changed(container: V1Container, status: ContainerStatus) -> bool:
    """Tell whether a container was created of another definition: its hash differs (containerChanged)."""
    return status.annotations.get(CONTAINER_HASH) != container_hash(container)


def _unknown_state(status: ContainerStatus, kind: str) -> ContainerToKill:
    """Return the end of a container that may or may not run, so that two never run; `kind` begins the message."""
    message = f'{kind} is in "unknown" state, try killing it before restart'
    return ContainerToKill(status.id, status.metadata.name, message, UNKNOWN)


def probe_grace_period(pod: V1Pod, container: V1Container, reason: str) -> int | None:
    """Return the seconds that a failed probe grants its container; None if the pod's own period holds.

    A deletion's grace period goes before the probe's (kubelet's setTerminationGracePeriod).
    """
    if pod.metadata.deletion_grace_period_seconds is not None:
        return None
    probe = {LIVENESS_PROBE: container.liveness_probe, STARTUP_PROBE: container.startup_probe}.get(reason)
    return None if probe is None else probe.termination_grace_period_seconds
