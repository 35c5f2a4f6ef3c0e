"""The steps from a pod's manifest to its containers (kubelet's kubeGenericRuntimeManager.SyncPod).

1. Compute the actions. 2. Kill the pod if its sandbox changed. 3. Kill containers that should not run. 4. Create the
sandbox. 5. Start ephemeral containers. 6. Start init containers, one at a time. 7. Start the other containers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from api.container import V1Container
from api.formats import format_duration
from api.pod import V1Pod
from fast_stdlib import span
from harness.cri.messages import ContainerState, NamespaceMode, PodSandboxConfig
from harness.cri.service import RuntimeService, RuntimeServiceError
from harness.kubelet.events import NORMAL, WARNING, EventRecorder
from harness.kubelet.labels import container_hash
from harness.kubelet.paths import KubeletPaths
from harness.kubelet.probes.results import Probes
from harness.kubelet.requests.container_config import MountedVolume
from harness.kubelet.requests.dns import pod_dns
from harness.kubelet.requests.sandbox_config import pod_sandbox_config
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus
from harness.kubelet.status.start_errors import StartError
from harness.kubelet.sync.backoff import Backoff
from harness.kubelet.sync.container_kill import ContainerKiller
from harness.kubelet.sync.container_start import ContainerStarter, PodStart
from harness.kubelet.sync.pod_actions import ContainerToKill, PodActions, compute_pod_actions, probe_grace_period
from harness.runtime.unserved_requests import BANDWIDTH, PORT_MAPPINGS

START_CONTAINER = "StartContainer"
KILL_CONTAINER = "KillContainer"
CREATE_SANDBOX = "CreatePodSandbox"
KILL_SANDBOX = "KillPodSandbox"

_UNSERVED_REASONS: Final = {PORT_MAPPINGS: "HostPortNotSupported", BANDWIDTH: "BandwidthNotSupported"}
"""kubelet has no such events; it has HostNetworkNotSupported (pkg/kubelet/events/event.go)."""


class SyncStep(NamedTuple):
    """One action of a sync and its outcome; `reason` is empty if it succeeded.

    `retry_s` are the seconds until a repetition makes sense, None if they are not known.
    """

    action: str
    target: str
    reason: str = ""
    message: str = ""
    retry_s: float | None = None

    def in_words(self) -> str:
        """Return the failure as kubelet logs it."""
        return f'failed to "{self.action}" for "{self.target}" with {self.reason}: "{self.message}"'


@dataclass(frozen=True)
class KubeRuntime:
    """Brings pods to the state of their manifests; safe to share between threads of different pods."""

    service: RuntimeService
    starter: ContainerStarter
    killer: ContainerKiller
    backoff: Backoff
    events: EventRecorder
    paths: KubeletPaths
    probes: Probes

    def sync_pod(
        self, pod: V1Pod, status: RuntimePodStatus, volumes: Mapping[str, MountedVolume], cgroup_parent: str
    ) -> list[SyncStep]:
        """Take the actions that the pod needs, and return each with its outcome. Raises OSError."""
        with span("computePodActions"):
            actions = compute_pod_actions(pod, status, self.probes)
        if actions.create_sandbox and actions.sandbox_id:
            message = "Pod sandbox changed, it will be killed and re-created."
            self.events.event(pod, NORMAL, "SandboxChanged", message)
        if actions.kill_pod:
            try:
                self.kill_pod(pod, status)
            except (RuntimeServiceError, ExceptionGroup) as error:
                return [SyncStep(KILL_SANDBOX, str(pod), "KillPodSandboxError", str(error))]
            if actions.create_sandbox:
                self._remove_init_containers(pod, status, keep_newest=False)
        else:
            for each in actions.to_kill:
                if failed := self._kill_one(pod, each, status):
                    return [failed]
            self._remove_init_containers(pod, status, keep_newest=True)
        sandbox = self._sandbox(pod, status, actions, cgroup_parent)
        if sandbox is None:
            return []
        if isinstance(sandbox, SyncStep):
            return [sandbox]
        return self._start_all(PodStart(pod, *sandbox, status, volumes), actions)

    def kill_pod(self, pod: V1Pod, status: RuntimePodStatus, grace_s: int | None = None) -> None:
        """Stop all containers, then all sandboxes. Raises RuntimeServiceError, ExceptionGroup."""
        with span("killPodWithSyncResult"):
            self.stop_containers(pod, status, grace_s)
            for sandbox in status.sandboxes:
                self.service.stop_pod_sandbox(sandbox.id)

    def stop_containers(self, pod: V1Pod, status: RuntimePodStatus, grace_s: int | None) -> None:
        """Stop all containers; the grace period, in seconds, is the pod's own by default. Raises ExceptionGroup."""
        self.killer.kill_all(pod, status.containers, grace_s=grace_s, ip=_ip(status))

    def _start_all(self, start: PodStart, actions: PodActions) -> list[SyncStep]:
        def started(containers: Sequence[V1Container], indexes: Iterable[int]) -> Iterator[SyncStep]:
            for index in indexes:
                yield self._start(start, containers[index])

        spec = start.pod.spec
        steps = [*started(spec.ephemeral_containers, actions.ephemeral_to_start)]
        sidecars = {each.name for each in spec.sidecars()}
        for step in started(spec.init_containers, actions.init_to_start):
            steps.append(step)
            if step.reason and step.target not in sidecars:
                return steps
        return [*steps, *started(spec.containers, actions.to_start)]

    def _start(self, start: PodStart, container: V1Container) -> SyncStep:
        if waiting := self._in_backoff(start.pod, container, start.status):
            return waiting
        try:
            with span("startContainer", container=container.name):
                self.starter.start(start, container)
        except StartError as error:
            return SyncStep(START_CONTAINER, container.name, error.reason, error.message)
        return SyncStep(START_CONTAINER, container.name)

    def _in_backoff(self, pod: V1Pod, container: V1Container, status: RuntimePodStatus) -> SyncStep | None:
        """Return the failure of a container that ended a short time ago (kubelet's doBackOff)."""
        ended = next((each for each in status.of(container.name) if each.state is ContainerState.EXITED), None)
        if ended is None:
            return None
        finished = ended.finished_at / 1e9
        key = f"{pod}_{container.name}_{container_hash(container)}"
        if not self.backoff.is_in_backoff_since(key, finished):
            self.backoff.next(key, finished)
            return None
        delay = self.backoff.get(key)
        message = f"Back-off restarting failed container {container.name} in pod {pod}"
        self.events.event(pod, WARNING, "BackOff", message, pod.spec.field_path(container))
        told = f"back-off {format_duration(delay)} restarting failed container={container.name} pod={pod}"
        retry_s = self.backoff.remaining_s(key, finished)
        return SyncStep(START_CONTAINER, container.name, "CrashLoopBackOff", told, retry_s)

    def _sandbox(
        self, pod: V1Pod, status: RuntimePodStatus, actions: PodActions, cgroup_parent: str
    ) -> tuple[str, PodSandboxConfig, tuple[str, ...]] | SyncStep | None:
        """Return ID, request and addresses of the sandbox for new containers, made if it is missing; None for none."""
        if not actions.create_sandbox and (actions.kill_pod or not actions.sandbox_id):
            return None
        dns = pod_dns(pod)
        try:
            folder = str(self.paths.log_directory(pod))
            config = pod_sandbox_config(
                pod, actions.attempt, dns=dns.config, log_directory=folder, cgroup_parent=cgroup_parent
            )
        except ValueError as error:
            self.events.event(pod, WARNING, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
            message = f'Failed to generate sandbox config for pod "{pod}": {error}'
            return SyncStep(CREATE_SANDBOX, str(pod), "CreatePodSandboxError", message)
        if not actions.create_sandbox:
            return actions.sandbox_id, config, status.ips
        for note in dns.notes:
            self.events.event(pod, WARNING, note.reason, note.message)
        self.paths.log_directory(pod).mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            with span("createPodSandbox"):
                sandbox_id = self.service.run_pod_sandbox(config)
        except RuntimeServiceError as error:
            self.events.event(pod, WARNING, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")
            message = f'Failed to create sandbox for pod "{pod}": {error}'
            return SyncStep(CREATE_SANDBOX, str(pod), "CreatePodSandboxError", message)
        try:
            ips = self.service.pod_sandbox_status(sandbox_id).ips
        except RuntimeServiceError as error:
            message = f"Unable to get pod sandbox status: {error}"
            self.events.event(pod, WARNING, "FailedPodSandBoxStatus", message)
            return SyncStep(CREATE_SANDBOX, str(pod), "CreatePodSandboxError", message)
        self._tell_unserved(pod, sandbox_id, config)
        return sandbox_id, config, tuple(ips)

    def _tell_unserved(self, pod: V1Pod, sandbox_id: str, config: PodSandboxConfig) -> None:
        """Record an event for host ports and bandwidth limits that no plugin of the pod's networks sets up."""
        if config.network != NamespaceMode.POD:
            return
        with suppress(RuntimeServiceError):  # the pod runs without this answer
            for request in self.service.unserved_requests(sandbox_id, config):
                self.events.event(pod, WARNING, _UNSERVED_REASONS[request.capability], request.in_words())

    def _kill_one(self, pod: V1Pod, to_kill: ContainerToKill, status: RuntimePodStatus) -> SyncStep | None:
        name = to_kill.name
        container = pod.spec.container(name) or V1Container(name=name)
        grace_s = probe_grace_period(pod, container, to_kill.reason)
        try:
            self.killer.kill(
                pod, container, to_kill.container_id, message=to_kill.message, grace_s=grace_s, ip=_ip(status)
            )
        except RuntimeServiceError as error:
            return SyncStep(KILL_CONTAINER, name, "KillContainerError", str(error))
        return None

    def _remove_init_containers(self, pod: V1Pod, status: RuntimePodStatus, *, keep_newest: bool) -> None:
        """Remove ended init containers: all before a new sandbox, else all but the newest of each name.

        A failure does not stop the sync, as in kubelet: garbage collection tries again.
        """
        for container in pod.spec.init_containers:
            ended = [each for each in status.of(container.name) if each.state is ContainerState.EXITED]
            for each in ended[1:] if keep_newest else ended:
                with suppress(RuntimeServiceError):
                    self.service.remove_container(each.id)


def _ip(status: RuntimePodStatus) -> str:
    return next(iter(status.ips), "127.0.0.1")
