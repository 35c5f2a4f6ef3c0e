"""Removal of ended containers, sandboxes and logs (kubelet's kuberuntime_gc.go)."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.cri.messages import Container, ContainerState, PodSandboxState
from harness.cri.service import NotFoundError, RuntimeService, RuntimeServiceError
from harness.kubelet.labels import CONTAINER_NAME, POD_UID
from harness.kubelet.paths import KubeletPaths


@dataclass(frozen=True)
class GarbageCollector:
    """Removes containers, sandboxes and files that no pod needs.

    `warn` gets a line for each failure; the next collection tries again.
    """

    service: RuntimeService
    paths: KubeletPaths
    warn: Callable[[str], None]

    def collect(self, wanted: Callable[[str], bool], *, others: bool = True) -> None:
        """Keep the newest ended attempt of each container, and the newest sandbox, of pods that are `wanted`.

        With `others`, everything of other pods that does not run is removed. Raises RuntimeServiceError, OSError.
        """
        by_name: dict[tuple[str, str], list[Container]] = defaultdict(list)
        for container in self.service.list_containers():
            by_name[container.labels.get(POD_UID, ""), container.labels.get(CONTAINER_NAME, "")].append(container)
        for (uid, _), attempts in by_name.items():
            if wanted(uid):
                self._remove_containers(_surplus(attempts))
            elif others:
                self._remove_containers([each for each in attempts if each.state is not ContainerState.RUNNING])
        self._collect_sandboxes(wanted, others=others)
        self._remove_dangling_links()

    def remove_old(self, uid: str, name: str) -> None:
        """Keep the newest ended attempt of one container, as after its end. Raises RuntimeServiceError, OSError."""
        if attempts := self.service.list_containers(labels={POD_UID: uid, CONTAINER_NAME: name}):
            self._remove_containers(_surplus(attempts))

    def remove_pod(self, uid: str) -> None:
        """Remove everything of one pod that does not run. Raises RuntimeServiceError, OSError."""
        listed = self.service.list_containers(labels={POD_UID: uid})
        self._remove_containers([each for each in listed if each.state is not ContainerState.RUNNING])
        for sandbox in self.service.list_pod_sandbox({POD_UID: uid}):
            if sandbox.state is not PodSandboxState.READY:
                self._try(self.service.remove_pod_sandbox, sandbox.id)
        self._remove_dangling_links()

    def _collect_sandboxes(self, wanted: Callable[[str], bool], *, others: bool) -> None:
        in_use = {each.pod_sandbox_id for each in self.service.list_containers()}
        by_pod = defaultdict(list)
        for sandbox in self.service.list_pod_sandbox():
            if others or wanted(sandbox.metadata.uid):
                by_pod[sandbox.metadata.uid].append(sandbox)
        for uid, sandboxes in by_pod.items():
            newest = max(sandboxes, key=lambda each: (each.created_at, each.metadata.attempt))
            for sandbox in sandboxes:
                if (
                    sandbox.state is PodSandboxState.READY
                    or sandbox.id in in_use
                    or (wanted(uid) and sandbox is newest)
                ):
                    continue
                self._try(self.service.remove_pod_sandbox, sandbox.id)

    def _remove_containers(self, containers: list[Container]) -> None:
        for container in containers:
            try:
                log = self.service.container_status(container.id).log_path
            except NotFoundError:  # it was removed meanwhile
                continue
            if self._try(self.service.remove_container, container.id) and log:
                Path(log).unlink(missing_ok=True)

    def _try(self, remove: Callable[[str], None], identifier: str) -> bool:
        try:
            remove(identifier)
        except RuntimeServiceError as error:
            self.warn(f"garbage collection: {error}")
            return False
        return True

    def _remove_dangling_links(self) -> None:
        for link in self.paths.container_logs.glob("*.log"):
            if not link.exists():
                with suppress(FileNotFoundError):
                    link.unlink()


def _surplus(attempts: Iterable[Container]) -> list[Container]:
    """Return the attempts of a container that are not needed: all but the newest ended one.

    The newest of all is needed also if it has not started yet.
    """
    newest, *others = sorted(attempts, key=lambda each: each.created_at, reverse=True)
    idle = [each for each in others if each.state is not ContainerState.RUNNING]
    if newest.state is ContainerState.EXITED:
        return idle
    ended = next((each for each in idle if each.state is ContainerState.EXITED), None)
    return [each for each in idle if each is not ended]
