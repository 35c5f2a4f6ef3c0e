"""What a pod's worker does in each state: SyncPod, SyncTerminatingPod and SyncTerminatedPod (kubelet.go)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from api.pod import V1Pod
from api.status import V1PodStatus
from fast_stdlib import span, span_note
from harness.cri.messages import ContainerState
from harness.cri.service import RuntimeService, RuntimeServiceError
from harness.kubelet.events import NORMAL, WARNING, EventRecorder
from harness.kubelet.pod_records import PodRecords
from harness.kubelet.probes.manager import ProbeManager
from harness.kubelet.probes.results import Probes
from harness.kubelet.probes.worker import LIVENESS, READINESS, STARTUP
from harness.kubelet.requests.cgroups import PodCgroups
from harness.kubelet.status.api_status import (
    DEADLINE_EXCEEDED,
    generate_api_pod_status,
    is_terminal_phase,
    seconds_left,
)
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus, runtime_pod_status
from harness.kubelet.status.start_errors import NETWORK_NOT_READY, ReasonCache, network_error
from harness.kubelet.sync.kuberuntime import START_CONTAINER, KubeRuntime
from harness.kubelet.volumes.manager import VolumeError, VolumeManager


class SyncError(Exception):
    """A sync failed, and is to be repeated; `retry_s` are the seconds until then, None if they are not known."""

    def __init__(self, message: str, retry_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_s = retry_s


@dataclass(frozen=True)
class PodSync:
    """The functions of workers; safe to share between the threads of different pods."""

    service: RuntimeService
    runtime: KubeRuntime
    records: PodRecords
    events: EventRecorder
    volumes: VolumeManager
    cgroups: PodCgroups
    probe_workers: ProbeManager
    probes: Probes
    reasons: ReasonCache
    relist: Callable[[], None]
    runtime_name: str
    host_ip: str

    def seconds_left(self, pod: V1Pod) -> float:
        """Return the time until the pod's active deadline, infinity without one."""
        return seconds_left(pod, self.records.status(pod.metadata.uid), datetime.now(UTC))

    def sync(self, pod: V1Pod) -> bool:
        """Bring a pod to the state of its manifest. True if it has ended by itself. Raises SyncError, OSError."""
        status = self._runtime_status(pod)
        told = self._tell(pod, status)
        if is_terminal_phase(told.phase):
            return True
        if not pod.spec.host_network and (failure := self._network_error()) is not None:
            raise self._failed(pod, "NetworkNotReady", f"{NETWORK_NOT_READY}: {failure}")
        try:
            cgroup_parent = self.cgroups.ensure(pod)
        except OSError as error:
            message = f"unable to ensure pod container exists: {error}"
            raise self._failed(pod, "FailedCreatePodContainer", message) from error
        try:
            with span("WaitForAttachAndMount"):
                volumes = self.volumes.mount(pod)
        except VolumeError as error:
            raise self._failed(pod, "FailedMount", str(error)) from error
        self.probe_workers.add_pod(pod)
        with span("SyncPod"):
            steps = self.runtime.sync_pod(pod, status, volumes, cgroup_parent)
        uid = pod.metadata.uid
        if steps:
            self.relist()
        for step in steps:
            if step.action == START_CONTAINER and step.reason:
                self.reasons.set(uid, step.target, step.reason, step.message)
            elif step.action == START_CONTAINER:
                self.reasons.remove(uid, step.target)
        if failed := [step for step in steps if step.reason]:
            self._tell(pod, self._runtime_status(pod))
            retries = [step.retry_s for step in failed if step.retry_s is not None]
            raise SyncError("; ".join(step.in_words() for step in failed), min(retries, default=None))
        return False

    def terminate(self, pod: V1Pod, grace_s: int | None) -> None:
        """Stop all containers and sandboxes of a pod. Raises SyncError, OSError."""
        uid = pod.metadata.uid
        status = self._runtime_status(pod)
        self._tell(pod, status)
        self.probe_workers.stop(uid, LIVENESS, STARTUP)  # they could restart a container
        try:
            self.runtime.kill_pod(pod, status, grace_s)
        except (RuntimeServiceError, ExceptionGroup) as error:
            raise self._failed(pod, "FailedKillPod", f"error killing pod: {_words(error)}") from error
        self.probe_workers.stop(uid, LIVENESS, STARTUP, READINESS)
        after = self._runtime_status(pod)
        if running := [each.id for each in after.containers if each.state is ContainerState.RUNNING]:
            raise SyncError(f"detected running containers after a successful KillPod, CRI violation: {running}")
        self._tell(pod, after, terminal=True)

    def stop_sooner(self, pod: V1Pod, grace_s: int) -> None:
        """Stop the running containers within `grace_s` seconds. Raises SyncError."""
        try:
            self.runtime.stop_containers(pod, self._runtime_status(pod), grace_s)
        except (RuntimeServiceError, ExceptionGroup) as error:
            raise SyncError(f"error killing pod: {_words(error)}") from error

    def finish(self, pod: V1Pod) -> None:
        """Take down volumes and control group of a pod that has ended. Raises SyncError, OSError."""
        uid = pod.metadata.uid
        self._tell(pod, self._runtime_status(pod), terminal=True)
        self.volumes.unmount(uid)
        self.cgroups.remove(uid)

    def _network_error(self) -> str | None:
        try:
            return network_error(self.service.status())
        except RuntimeServiceError as error:
            return str(error)

    def _failed(self, pod: V1Pod, reason: str, message: str) -> SyncError:
        """Record why a sync has failed, and return the error."""
        self.events.event(pod, WARNING, reason, message)
        return SyncError(message)

    def _runtime_status(self, pod: V1Pod) -> RuntimePodStatus:
        try:
            return runtime_pod_status(self.service, pod.metadata.uid)
        except RuntimeServiceError as error:
            raise self._failed(pod, "FailedSync", f"error determining status: {error}") from error

    def _tell(self, pod: V1Pod, status: RuntimePodStatus, *, terminal: bool = False) -> V1PodStatus:
        uid = pod.metadata.uid
        old = self.records.status(uid)
        with span("generateAPIPodStatus"):
            told = generate_api_pod_status(
                pod,
                status,
                old=old,
                reasons=self.reasons,
                probes=self.probes,
                runtime_name=self.runtime_name,
                host_ip=self.host_ip,
                now=datetime.now(UTC),
                terminal=terminal,
            )
            span_note(phase=told.phase)
        if told.reason == DEADLINE_EXCEEDED and (old is None or old.reason != DEADLINE_EXCEEDED):
            self.events.event(pod, NORMAL, told.reason, told.message)
        self.records.set_status(uid, told)
        return told


def _words(error: BaseException) -> str:
    return "; ".join(map(str, error.exceptions)) if isinstance(error, ExceptionGroup) else str(error)
