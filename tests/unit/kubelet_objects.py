"""Pods, and their sandboxes and containers in a runtime, for the tests of kubelet's rules."""

from collections.abc import Sequence
from typing import Final

from api.pod import V1Pod
from harness.cri.messages import (
    ContainerMetadata,
    ContainerState,
    ContainerStatus,
    NamespaceMode,
    PodSandboxMetadata,
    PodSandboxState,
    PodSandboxStatus,
)
from harness.kubelet.labels import CONTAINER_HASH, RESTART_COUNT, container_hash
from harness.kubelet.probes.results import ProbeResults, Probes
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus

UID: Final = "12345678"
IP: Final = "10.1.0.2"
START: Final = 1_800_000_000
"""Seconds since 1970: 2027-01-15T08:00:00Z."""

NS: Final = 1_000_000_000


def pod(
    containers: Sequence[object] = ("foo1", "foo2", "foo3"), *, annotations: object = None, **spec: object
) -> V1Pod:
    """A pod of containers by name, or as objects, and further keys of its spec as in a manifest."""
    for key in ("initContainers", "ephemeralContainers"):
        if key in spec:
            spec[key] = _containers(spec[key])
    metadata = {"name": "foo", "namespace": "new", "uid": UID, "annotations": annotations or {}}
    return V1Pod.decode({"metadata": metadata, "spec": {"containers": _containers(containers), **spec}})


def _containers(given: object) -> list[object]:
    assert isinstance(given, Sequence)
    return [
        {"name": each, "image": "busybox"} if isinstance(each, str) else {"image": "busybox", **each} for each in given
    ]


def sidecar(name: str, **keys: object) -> dict[str, object]:
    return {"name": name, "restartPolicy": "Always", **keys}


def probes() -> Probes:
    return Probes(startup=ProbeResults(), liveness=ProbeResults(), readiness=ProbeResults())


def sandbox(
    attempt: int = 0,
    state: PodSandboxState = PodSandboxState.READY,
    *,
    ips: Sequence[str] = (IP,),
    network: NamespaceMode = NamespaceMode.POD,
) -> PodSandboxStatus:
    return PodSandboxStatus(
        id=f"sandbox{attempt}",
        metadata=PodSandboxMetadata(name="foo", uid=UID, namespace="new", attempt=attempt),
        state=state,
        created_at=(START + attempt) * NS,
        ips=list(ips),
        network=network,
    )


def attempt(
    name: str,
    state: ContainerState = ContainerState.RUNNING,
    *,
    exit_code: int = 0,
    number: int = 0,
    definition: str | None = None,
    reason: str = "",
    sandbox_id: str = "sandbox0",
    message: str = "",
) -> ContainerStatus:
    """An attempt of a container, with the ID `NAME-NUMBER`, created NUMBER minutes after START."""
    created = START + 60 * number
    known = pod([name]).spec.containers[0]
    return ContainerStatus(
        id=f"{name}-{number}",
        pod_sandbox_id=sandbox_id,
        metadata=ContainerMetadata(name=name, attempt=number),
        image="busybox",
        image_ref="sha256:1",
        state=state,
        created_at=created * NS,
        started_at=(created + 1) * NS,
        finished_at=(created + 2) * NS if state is ContainerState.EXITED else 0,
        exit_code=exit_code,
        reason=reason,
        message=message,
        annotations={
            CONTAINER_HASH: container_hash(known) if definition is None else definition,
            RESTART_COUNT: str(number),
        },
    )


def exited(name: str, exit_code: int = 0, **keys: object) -> ContainerStatus:
    return attempt(name, ContainerState.EXITED, exit_code=exit_code, **keys)  # type: ignore[arg-type]


def runtime(*containers: ContainerStatus, sandboxes: Sequence[PodSandboxStatus] | None = None) -> RuntimePodStatus:
    """A runtime's view of the pod: these containers, newest first, in one ready sandbox unless others are given."""
    found = (sandbox(),) if sandboxes is None else tuple(sandboxes)
    ips = tuple(found[0].ips) if found and found[0].state is PodSandboxState.READY else ()
    return RuntimePodStatus(ips, found, containers)


def dead_sandbox(attempt: int = 0) -> PodSandboxStatus:
    return sandbox(attempt, PodSandboxState.NOTREADY)
