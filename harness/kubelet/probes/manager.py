"""The probes of all pods: startup, readiness and liveness (kubelet's prober/prober_manager.go)."""

import threading
from dataclasses import dataclass, field

from api.container import V1Container, V1Probe
from api.pod import V1Pod
from harness.cri.messages import ContainerState
from harness.cri.service import RuntimeService, RuntimeServiceError
from harness.kubelet.events import WARNING, EventRecorder
from harness.kubelet.pod_records import PodRecords
from harness.kubelet.probes.handlers import OnNode
from harness.kubelet.probes.results import ProbeResult, ProbeResults, Probes
from harness.kubelet.probes.worker import (
    LIVENESS,
    READINESS,
    STARTUP,
    ContainerView,
    ProbeOutcome,
    ProbeWorker,
    probe_once,
)
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus, runtime_pod_status
from harness.kubelet.sync.container_restart import should_container_be_restarted


@dataclass(frozen=True)
class ProbeManager:
    """A worker for each probe; methods may be called from any thread."""

    service: RuntimeService
    records: PodRecords
    events: EventRecorder
    probes: Probes
    on_node: OnNode
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _workers: dict[tuple[str, str, str], ProbeWorker] = field(default_factory=dict)

    def add_pod(self, pod: V1Pod) -> None:
        """Begin the probes of a pod that have not begun."""
        probes = self.probes
        for container in (*pod.spec.containers, *pod.spec.sidecars()):
            for kind, probe, results in (
                (STARTUP, container.startup_probe, probes.startup),
                (READINESS, container.readiness_probe, probes.readiness),
                (LIVENESS, container.liveness_probe, probes.liveness),
            ):
                if probe is not None:
                    self._add(kind, _Probed(self, pod, container, probe), results)

    def stop(self, uid: str, *kinds: str) -> None:
        """End these probes of a pod."""
        with self._lock:
            keys = [key for key in self._workers if key[0] == uid and key[2] in kinds]
            workers = [self._workers.pop(key) for key in keys]
        for worker in workers:
            worker.stop()

    def close(self) -> None:
        """End all probes, and wait for their threads."""
        with self._lock:
            workers = list(self._workers.values())
            self._workers.clear()
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()

    def _add(self, kind: str, probed: "_Probed", results: ProbeResults) -> None:
        key = (probed.uid, probed.container.name, kind)
        with self._lock:
            if key in self._workers and self._workers[key].is_alive():
                return
            worker = self._workers[key] = ProbeWorker(kind, probed.probe, probed, results)
        worker.start()


def view_of(
    pod: V1Pod, container: V1Container, status: RuntimePodStatus, startup: ProbeResults
) -> ContainerView | None:
    """Return a container's state in a runtime's status of its pod; None if no attempt of it was started."""
    newest = status.newest(container.name)
    if newest is None or newest.state is ContainerState.CREATED:
        return None
    return ContainerView(
        newest.id,
        running=newest.state is ContainerState.RUNNING,
        started=container.startup_probe is None or startup.get(newest.id) is ProbeResult.SUCCESS,
        started_at=newest.started_at / 1e9,
        restarts=should_container_be_restarted(pod, container, status),
    )


class _Probed:
    """A container with one of its probes."""

    def __init__(self, manager: ProbeManager, pod: V1Pod, container: V1Container, probe: V1Probe) -> None:
        self.uid = pod.metadata.uid
        self.container = container
        self.probe = probe
        self._manager = manager
        self._pod = pod

    def view(self) -> ContainerView | None:
        """Return its state; None if the runtime has not started it, or does not answer."""
        try:
            status = runtime_pod_status(self._manager.service, self.uid)
        except (RuntimeServiceError, OSError):
            return None
        return view_of(self._pod, self.container, status, self._manager.probes.startup)

    def execute(self, container_id: str) -> ProbeOutcome:
        service, on_node = self._manager.service, self._manager.on_node
        told = self._manager.records.status(self.uid)
        ip = told.pod_ip if told is not None and told.pod_ip else "127.0.0.1"
        return probe_once(self.probe, self.container, container_id, ip, service=service, on_node=on_node)

    def unhealthy(self, message: str) -> None:
        self._manager.events.event(self._pod, WARNING, "Unhealthy", message, self._pod.spec.field_path(self.container))
