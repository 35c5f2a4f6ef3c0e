"""The sandboxes and containers that a runtime has of one pod (kubelet's kubecontainer.PodStatus)."""

from contextlib import suppress
from typing import NamedTuple

from harness.cri.messages import SANDBOX_READY, ContainerStatus, PodSandboxStatus
from harness.cri.service import NotFoundError, RuntimeService
from harness.kubelet.labels import POD_UID
from harness.kubelet.termination_message import termination_message


class RuntimePodStatus(NamedTuple):
    """Sandboxes and containers of a pod, newest first by creation; `ips` are the newest sandbox's, if it is ready.

    Name and namespace are empty if the runtime has no sandbox of the pod.
    """

    uid: str
    name: str = ""
    namespace: str = ""
    ips: tuple[str, ...] = ()
    sandboxes: tuple[PodSandboxStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()

    def of(self, container: str) -> list[ContainerStatus]:
        """Return all attempts of the container of this name, newest first."""
        return [status for status in self.containers if status.metadata.name == container]

    def newest(self, container: str) -> ContainerStatus | None:
        """Return the newest attempt of the container of this name."""
        return next((status for status in self.containers if status.metadata.name == container), None)

    def active(self) -> list[ContainerStatus]:
        """Return the containers of the newest sandbox if that is ready, newest first."""
        if not self.sandboxes or self.sandboxes[0].state is not SANDBOX_READY:
            return []
        return [status for status in self.containers if status.pod_sandbox_id == self.sandboxes[0].id]


def runtime_pod_status(service: RuntimeService, uid: str) -> RuntimePodStatus:
    """Ask a runtime for everything of one pod (kubelet's GetPodStatus). Raises RuntimeServiceError.

    Sandboxes and containers that vanish between list and status are left out. The message of an ended container is
    that of the runtime and its own. Raises OSError if that cannot be read.
    """
    sandboxes: list[PodSandboxStatus] = []
    for sandbox in service.list_pod_sandbox({POD_UID: uid}):
        with suppress(NotFoundError):
            sandboxes.append(service.pod_sandbox_status(sandbox.id))
    containers: list[ContainerStatus] = []
    for container in service.list_containers(labels={POD_UID: uid}):
        with suppress(NotFoundError):
            status = service.container_status(container.id)
            # The interface tells a container's sandbox in lists alone.
            status.pod_sandbox_id = container.pod_sandbox_id
            status.message = termination_message(status)
            containers.append(status)
    sandboxes.sort(key=lambda status: (status.created_at, status.metadata.attempt), reverse=True)
    containers.sort(key=lambda status: (status.created_at, status.metadata.attempt), reverse=True)
    if not sandboxes:
        return RuntimePodStatus(uid, containers=tuple(containers))
    newest = sandboxes[0]
    ips = tuple(newest.ips) if newest.state is SANDBOX_READY else ()
    name, namespace = newest.metadata.name, newest.metadata.namespace
    return RuntimePodStatus(uid, name, namespace, ips, tuple(sandboxes), tuple(containers))
