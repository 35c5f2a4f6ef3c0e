"""The actions that bring a pod's containers to the state in its manifest (kubelet's computePodActions).

A pure function: `kuberuntime` carries the actions out.
"""

from typing import NamedTuple

from harness.cri.messages import CONTAINER_RUNNING, CONTAINER_UNKNOWN, ContainerStatus
from harness.kubelet.container_restart import (
    NEVER,
    ON_FAILURE,
    has_succeeded,
    restarts_after_kill,
    should_container_be_restarted,
)
from harness.kubelet.init_container_actions import init_container_actions
from harness.kubelet.kill_reasons import (
    LIVENESS_PROBE,
    STARTUP_PROBE,
    ContainerToKill,
    definition_changed,
    unknown_state,
)
from harness.kubelet.probe_results import ProbeResult, Probes
from harness.kubelet.runtime_pod_status import RuntimePodStatus
from harness.kubelet.sandbox_change import sandbox_change
from harness.kubelet.v1 import V1Pod
from harness.kubelet.v1_container import V1Container


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
    init = init_container_actions(pod, status, probes)
    actions = actions._replace(
        kill_pod=init.kill_pod, ephemeral_to_start=ephemeral, init_to_start=init.to_start, to_kill=init.to_kill
    )
    if init.kill_pod or not init.initialized:
        return actions
    return _regular_containers(pod, status, probes, actions)


def _from_the_start(pod: V1Pod, status: RuntimePodStatus, actions: PodActions) -> PodActions:
    """Return the actions of a pod without a usable sandbox: everything is made again, unless the pod is done."""
    if pod.spec.restart_policy == NEVER and actions.attempt and status.containers:
        # Without containers no earlier sandbox came as far as a start, and the pod may still run once.
        return actions._replace(create_sandbox=False)
    to_start = tuple(
        index
        for index, container in enumerate(pod.spec.containers)
        if not (_runs_until_success(pod, container) and has_succeeded(container, status))
    )
    if pod.spec.containers and not to_start:
        return actions._replace(create_sandbox=False)
    if pod.spec.init_containers:
        return actions._replace(init_to_start=(0,))
    return actions._replace(to_start=to_start)


def _runs_until_success(pod: V1Pod, container: V1Container) -> bool:
    return (container.restart_policy or pod.spec.restart_policy) == ON_FAILURE


def _regular_containers(pod: V1Pod, status: RuntimePodStatus, probes: Probes, actions: PodActions) -> PodActions:
    """Add the actions of the regular containers of a pod that is initialised; without any, the pod is ended."""
    to_start: list[int] = []
    to_kill = list(actions.to_kill)
    kept = False
    for index, container in enumerate(pod.spec.containers):
        newest = status.newest(container.name)
        if newest is None or newest.state is not CONTAINER_RUNNING:
            if should_container_be_restarted(pod, container, status):
                to_start.append(index)
                if newest is not None and newest.state is CONTAINER_UNKNOWN:
                    to_kill.append(unknown_state(newest, "Container"))
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
    if definition_changed(container, newest):
        return ContainerToKill(newest.id, name, f"Container {name} definition changed"), True
    restart = restarts_after_kill(pod, container)
    if probes.liveness.get(newest.id) is ProbeResult.FAILURE:
        return ContainerToKill(newest.id, name, f"Container {name} failed liveness probe", LIVENESS_PROBE), restart
    if probes.startup.get(newest.id) is ProbeResult.FAILURE:
        return ContainerToKill(newest.id, name, f"Container {name} failed startup probe", STARTUP_PROBE), restart
    return None, False
