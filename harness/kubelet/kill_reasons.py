"""Single containers that kubelet ends while their pod goes on, and why (kubelet's containerToKillInfo)."""

from typing import Final, NamedTuple

from harness.cri.messages import ContainerState, ContainerStatus
from harness.kubelet.labels import CONTAINER_HASH, container_hash
from harness.kubelet.v1 import V1Pod
from harness.kubelet.v1_container import V1Container

LIVENESS_PROBE: Final = "LivenessProbe"
STARTUP_PROBE: Final = "StartupProbe"
UNKNOWN: Final = "Unknown"

_STATES: Final = {
    ContainerState.CREATED: "created",
    ContainerState.RUNNING: "running",
    ContainerState.EXITED: "exited",
    ContainerState.UNKNOWN: "unknown",
}


class ContainerToKill(NamedTuple):
    """A container to end: `message` is for its event Killing.

    `reason` is LIVENESS_PROBE or STARTUP_PROBE, whose own grace periods apply then, UNKNOWN, or empty.
    """

    container_id: str
    name: str
    message: str
    reason: str = ""


def definition_changed(container: V1Container, status: ContainerStatus) -> bool:
    """Tell whether a container was created of another definition: its hash differs (containerChanged)."""
    return status.annotations.get(CONTAINER_HASH) != container_hash(container)


def unknown_state(status: ContainerStatus, kind: str) -> ContainerToKill:
    """Return the end of a container that may or may not run, so that two never run; `kind` begins the message."""
    message = f'{kind} is in "{_STATES[status.state]}" state, try killing it before restart'
    return ContainerToKill(status.id, status.metadata.name, message, UNKNOWN)


def probe_grace_period(pod: V1Pod, container: V1Container, reason: str) -> int | None:
    """Return the seconds that a failed probe grants its container; None if the pod's own period holds.

    A deletion's grace period goes before the probe's (kubelet's setTerminationGracePeriod).
    """
    if pod.metadata.deletion_grace_period_seconds is not None:
        return None
    probe = {LIVENESS_PROBE: container.liveness_probe, STARTUP_PROBE: container.startup_probe}.get(reason)
    return None if probe is None else probe.termination_grace_period_seconds
