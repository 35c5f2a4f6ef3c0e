"""The calls of the Container Runtime Interface, version 1, with the names of `k8s.io/cri-api`'s services.

Two classes implement them: the runtime of this project, and the client of a runtime behind a socket. All methods may be
called from several threads. Each raises RuntimeServiceError.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from harness.cri.messages import (
    Container,
    ContainerConfig,
    ContainerStatus,
    ExecSyncResult,
    Image,
    PodSandboxConfig,
    PodSandboxStatus,
    RuntimeStatus,
    RuntimeVersion,
)
from harness.runtime.unserved_requests import UnservedRequest


class RuntimeServiceError(Exception):
    """A call failed; the text is the runtime's own."""


class NotFoundError(RuntimeServiceError):
    """The runtime knows no sandbox or container of that ID."""


class ImageNotFoundError(RuntimeServiceError):
    """The runtime has no image of that name, and cannot pull it."""


class RuntimeService(Protocol):
    """Sandboxes and containers."""

    def version(self) -> RuntimeVersion:
        """Return the names and versions of runtime and interface."""

    def status(self) -> RuntimeStatus:
        """Return the conditions RuntimeReady and NetworkReady."""

    def makes_recursive_read_only(self) -> bool:
        """Tell whether the runtime follows `recursive_read_only` of mounts."""

    def run_pod_sandbox(self, config: PodSandboxConfig) -> str:
        """Make a sandbox and its network, and return its ID. If that fails, nothing of it remains."""

    def unserved_requests(self, pod_sandbox_id: str, config: PodSandboxConfig) -> list[UnservedRequest]:
        """Return the host ports and bandwidth limits of a sandbox that its networks have no plugin for.

        Empty if the runtime does not tell its network lists. Raises NotFoundError.
        """

    def stop_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """End all containers of a sandbox by force, then remove its network; may be repeated. A missing one is fine."""

    def remove_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Stop a sandbox, and remove it and its containers. A missing one is fine."""

    def pod_sandbox_status(self, pod_sandbox_id: str) -> PodSandboxStatus:
        """Return one sandbox. Raises NotFoundError."""

    def list_pod_sandbox(self, labels: Mapping[str, str] | None = None) -> list[PodSandboxStatus]:
        """Return all sandboxes that have these labels, without order. A client may leave out `ips`."""

    def create_container(self, pod_sandbox_id: str, config: ContainerConfig, sandbox: PodSandboxConfig) -> str:
        """Create a container, which does not run yet, and return its ID. Raises ImageNotFoundError."""

    def start_container(self, container_id: str) -> None:
        """Start a container. If that fails, its state is exited, with a reason."""

    def stop_container(self, container_id: str, timeout_s: int) -> None:
        """Send the stop signal, and SIGKILL `timeout_s` seconds later; return when the container has ended."""

    def remove_container(self, container_id: str) -> None:
        """Remove a container, by force if it runs. A missing one is fine."""

    def list_containers(self, pod_sandbox_id: str = "", labels: Mapping[str, str] | None = None) -> list[Container]:
        """Return all containers of a sandbox, or of all sandboxes, that have these labels, without order."""

    def container_status(self, container_id: str) -> ContainerStatus:
        """Return one container. Raises NotFoundError."""

    def exec_sync(self, container_id: str, command: Sequence[str], timeout_s: float) -> ExecSyncResult:
        """Run a command in a container; 0 is no time limit. Raises TimeoutError when the limit passes."""

    def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> int:
        """Run a command in a container with this process's streams, and return its exit code."""


class ImageService(Protocol):
    """Images. `are_required` tells that each container needs one; else its command may run on the node's own files."""

    @property
    def are_required(self) -> bool:
        """Whether the runtime refuses a container without an image."""

    def list_images(self) -> list[Image]:
        """Return all images."""

    def image_status(self, image: str) -> Image | None:
        """Return the image of a reference or an ID; None if the runtime does not have it."""

    def pull_image(self, image: str) -> str:
        """Fetch an image and return its ID. Raises ImageNotFoundError: the runtime of this project fetches nothing."""

    def remove_image(self, image: str) -> None:
        """Remove an image. A missing one is fine."""
