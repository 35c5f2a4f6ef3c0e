"""The start of a container (kubelet's startContainer, kuberuntime_container.go)."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from api.container import V1Container
from api.pod import V1Pod
from harness.cri.messages import PodSandboxConfig
from harness.cri.service import RuntimeService, RuntimeServiceError
from harness.kubelet.events import NORMAL, WARNING, EventRecorder
from harness.kubelet.labels import RESTART_COUNT
from harness.kubelet.paths import KubeletPaths
from harness.kubelet.probes.handlers import HookError, HookPlace, OnNode, run_hook
from harness.kubelet.requests.container_config import MountedVolume, MountSources, container_config
from harness.kubelet.requests.environment import EnvironmentSources
from harness.kubelet.requests.hosts_file import write_hosts_file
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus, new_message_file
from harness.kubelet.status.start_errors import StartError
from harness.kubelet.sync.container_images import ContainerImages, Recorder
from harness.kubelet.sync.container_kill import ContainerKiller

_LOG_NAME: Final = re.compile(r"(\d+)\.log")
_LONGEST_NAME: Final = 255  # bytes of a file's name (NAME_MAX of limits.h)


class PodStart(NamedTuple):
    """A pod whose containers are started: its sandbox, its state in the runtime, and its volumes by name."""

    pod: V1Pod
    sandbox_id: str
    config: PodSandboxConfig
    ips: tuple[str, ...]
    status: RuntimePodStatus
    volumes: Mapping[str, MountedVolume]


@dataclass(frozen=True)
class ContainerStarter:
    """Starts containers; safe to share between threads of different pods."""

    service: RuntimeService
    images: ContainerImages
    killer: ContainerKiller
    paths: KubeletPaths
    events: EventRecorder
    on_node: OnNode
    sources: EnvironmentSources

    def start(self, start: PodStart, container: V1Container) -> str:
        """Create and start a container, run its postStart hook, and return its ID. Raises StartError, OSError."""
        pod, uid = start.pod, start.pod.metadata.uid

        def record(type: str, reason: str, message: str) -> None:
            self.events.event(pod, type, reason, message, pod.spec.field_path(container))

        try:
            image = self.images.ensure(container, uid, record)
        except StartError as error:
            record(WARNING, "Failed", f"Error: {error.reason}")
            raise
        attempt = self._attempt(start, container)
        (self.paths.log(pod, container, attempt).parent).mkdir(mode=0o755, parents=True, exist_ok=True)
        message_file = new_message_file(self.paths.container(uid, container.name))
        hosts = self.paths.hosts_file(uid)
        write_hosts_file(hosts, pod, start.ips)
        try:
            config = container_config(
                pod,
                container,
                attempt=attempt,
                image=image,
                mounts=MountSources(
                    start.volumes,
                    hosts,
                    message_file,
                    self.service.makes_recursive_read_only,
                    self.paths.sub_paths(uid),
                ),
                sources=replace(self.sources, ips=start.ips or (self.sources.host_ip,)),
            )
        except StartError as error:
            record(WARNING, "Failed", f"Error: {error.message}")
            raise
        with _telling(record, "CreateContainerError"):
            container_id = self.service.create_container(start.sandbox_id, config, start.config)
        record(NORMAL, "Created", "Container created")
        with _telling(record, "RunContainerError"):
            self.service.start_container(container_id)
        record(NORMAL, "Started", "Container started")
        self._link_log(pod, container, container_id, self.paths.log(pod, container, attempt))
        self._post_start(start, container, container_id, record)
        return container_id

    def _post_start(self, start: PodStart, container: V1Container, container_id: str, record: Recorder) -> None:
        hook = container.lifecycle.post_start
        if hook is None:
            return
        ip = next(iter(start.ips), "127.0.0.1")
        try:
            run_hook(hook, start.pod, container, container_id, HookPlace(self.service, ip, self.on_node))
        except HookError as error:
            record(WARNING, "FailedPostStartHook", "PostStartHook failed")
            with suppress(RuntimeServiceError):  # the hook's failure is told; the next sync sees the container
                self.killer.kill(start.pod, container, container_id, message="FailedPostStartHook", ip=ip)
            raise StartError("PostStartHookError", str(error)) from error

    def _attempt(self, start: PodStart, container: V1Container) -> int:
        """Return the number of this start: one more than the newest container's, or than the newest log's."""
        newest = start.status.newest(container.name)
        if newest is not None:
            return int(newest.annotations.get(RESTART_COUNT, newest.metadata.attempt)) + 1
        folder = self.paths.log(start.pod, container, 0).parent
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        numbers = [int(match[1]) for name in names if (match := _LOG_NAME.fullmatch(name))]
        return max(numbers, default=-1) + 1

    def _link_log(self, pod: V1Pod, container: V1Container, container_id: str, log: Path) -> None:
        """Link the log where log collectors look."""
        if not log.exists():
            return
        name = f"{pod.metadata.name}_{pod.metadata.namespace}_{container.name}-{container_id}.log"
        link = self.paths.container_logs / f"{name[: _LONGEST_NAME - len('.log')].removesuffix('.log')}.log"
        link.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(log)


@contextmanager
def _telling(record: Recorder, reason: str) -> Iterator[None]:
    """Record the runtime's error, and raise it as a StartError with this reason."""
    try:
        yield
    except RuntimeServiceError as error:
        record(WARNING, "Failed", f"Error: {error}")
        raise StartError(reason, str(error)) from error
