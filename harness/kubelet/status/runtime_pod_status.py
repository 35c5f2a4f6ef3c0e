"""The sandboxes and containers that a runtime has of one pod (kubelet's kubecontainer.PodStatus).

They tell whether the pod needs another sandbox (PodSandboxChanged). The termination message of a container is a file
that it may write, or the end of its log (getTerminationMessage). The limits are the API's: 4096 bytes of the file, 2048
bytes or 80 lines of the log.
"""

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from api.pod import V1Pod
from harness.cri.messages import ContainerState, ContainerStatus, NamespaceMode, PodSandboxState, PodSandboxStatus
from harness.cri.service import NotFoundError, RuntimeService
from harness.files import read_end
from harness.kubelet.labels import POD_UID, TERMINATION_MESSAGE_PATH, TERMINATION_MESSAGE_POLICY

_FILE_BYTES: Final = 4096
_LOG_BYTES: Final = 2048
_LOG_LINES: Final = 80
_CRI_FIELDS: Final = 4


class RuntimePodStatus(NamedTuple):
    """Sandboxes and containers of a pod, newest first by creation; `ips` are the newest sandbox's, if it is ready."""

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
        if not self.sandboxes or self.sandboxes[0].state is not PodSandboxState.READY:
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
    ips = tuple(sandboxes[0].ips) if sandboxes and sandboxes[0].state is PodSandboxState.READY else ()
    return RuntimePodStatus(ips, tuple(sandboxes), tuple(containers))


class SandboxChange(NamedTuple):
    """The answer: `sandbox_id` is the newest sandbox, and `attempt` that of the sandbox which is needed.

    `sandbox_id` is empty if there is no sandbox, and if the pod has moved between its own network and the node's.
    """

    changed: bool
    attempt: int
    sandbox_id: str


def sandbox_change(pod: V1Pod, status: RuntimePodStatus) -> SandboxChange:
    """Compare a pod with its sandboxes; only a single ready sandbox that is the newest, and fits, is kept."""
    if not status.sandboxes:
        return SandboxChange(changed=True, attempt=0, sandbox_id="")
    newest = status.sandboxes[0]
    following = newest.metadata.attempt + 1
    ready = sum(sandbox.state is PodSandboxState.READY for sandbox in status.sandboxes)
    if ready > 1 or newest.state is not PodSandboxState.READY:
        return SandboxChange(changed=True, attempt=following, sandbox_id=newest.id)
    if newest.network is not (NamespaceMode.NODE if pod.spec.host_network else NamespaceMode.POD):
        return SandboxChange(changed=True, attempt=following, sandbox_id="")
    if not pod.spec.host_network and not newest.ips:
        return SandboxChange(changed=True, attempt=following, sandbox_id=newest.id)
    return SandboxChange(changed=False, attempt=newest.metadata.attempt, sandbox_id=newest.id)


def new_message_file(folder: Path) -> Path:
    """Make the empty file for one start of a container, which any user may write to. Raises OSError."""
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    path = folder / secrets.token_hex(4)
    path.touch(0o666)
    path.chmod(0o666)
    return path


def termination_message(status: ContainerStatus) -> str:
    """Return the runtime's message of an ended container, followed by the container's own."""
    if status.state is not ContainerState.EXITED:
        return status.message
    own = _from_file(status)
    falls_back = status.annotations.get(TERMINATION_MESSAGE_POLICY) == "FallbackToLogsOnError"
    if not own and falls_back and status.exit_code and status.log_path:
        own = _from_log(status.log_path)
    return ": ".join(filter(None, (status.message, own)))


def _from_file(status: ContainerStatus) -> str:
    inside = status.annotations.get(TERMINATION_MESSAGE_PATH, "")
    for mount in status.mounts:
        if inside and mount.container_path == inside:
            try:
                return _end_of(mount.host_path, _FILE_BYTES)
            except OSError as error:
                return f"Error on reading termination log {mount.host_path}: {error.strerror}"
    return ""


def _from_log(path: str) -> str:
    try:
        text = _end_of(path, 4 * _LOG_BYTES)
    except OSError as error:
        return f"Error on reading termination message from logs: {error.strerror}"
    said = "".join(map(_said, text.splitlines()[-_LOG_LINES:]))
    return said.encode()[-_LOG_BYTES:].decode(errors="ignore")


def _said(line: str) -> str:
    """Return the text of a line of the log: with P it goes on in the next one."""
    fields = line.split(" ", _CRI_FIELDS - 1)
    return fields[-1] if fields[2:3] == ["P"] else f"{fields[-1]}\n"


def _end_of(path: str, count: int) -> str:
    """Return the end of a file, which a container may have made; empty if it is missing. Raises OSError."""
    try:
        return read_end(path, count).decode(errors="replace")
    except FileNotFoundError:
        return ""
