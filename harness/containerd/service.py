"""The calls of the Container Runtime Interface, answered by this process."""

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.containerd.containers import Containers
from harness.containerd.images import Images
from harness.containerd.sandbox_networks import SandboxNetworks
from harness.containerd.sandboxes import Sandboxes
from harness.cri.messages import (
    RUNTIME_READY,
    PodSandboxConfig,
    PodSandboxStatus,
    RuntimeCondition,
    RuntimeStatus,
    RuntimeVersion,
)
from harness.locations import own_version
from harness.runtime.node import Node
from harness.runtime.unserved_requests import UnservedRequest

RUNTIME_NAME = "cni-harness"


class BuiltinRuntime(Containers):
    """A RuntimeService whose state is below `folder`; `images` is its ImageService.

    Its base class has the calls for containers.
    """

    def __init__(
        self, folder: Path, open_node: Callable[[], Node], networks: SandboxNetworks, *, take_over: bool
    ) -> None:
        """Read the sandboxes and containers of an earlier process. Raises OSError.

        With `take_over`, that process has ended, and what it left half done is noted as such.
        """
        self._networks = networks
        self._sandboxes = Sandboxes(open_node, networks, take_over=take_over)
        self.images = Images(folder, self.images_in_use)
        super().__init__(folder, self.images, self._sandboxes.view)
        if take_over:
            self.recover()
            self.images.recover()

    def version(self) -> RuntimeVersion:
        """Return this program's name and version."""
        own = own_version()
        return RuntimeVersion(runtime_name=RUNTIME_NAME, runtime_version=own, runtime_api_version="v1")

    def status(self) -> RuntimeStatus:
        """Return the conditions: the runtime is ready, the network if its list and plugins are."""
        ready = RuntimeCondition(type=RUNTIME_READY, status=True)
        return RuntimeStatus(conditions=[ready, self._networks.condition()])

    def makes_recursive_read_only(self) -> bool:
        """Return True: Linux 5.12 and runc 1.1 do."""
        return True

    def run_pod_sandbox(self, config: PodSandboxConfig) -> str:
        """Make a sandbox. Raises RuntimeServiceError."""
        return self._sandboxes.run(config)

    def unserved_requests(self, pod_sandbox_id: str, config: PodSandboxConfig) -> list[UnservedRequest]:
        """Return the requests without a plugin, by the lists that the sandbox was joined to. Raises NotFoundError."""
        del config  # the record has the arguments of each network
        return list(self._sandboxes.unserved_requests(pod_sandbox_id))

    def stop_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Kill the containers of a sandbox, then stop it. Raises RuntimeServiceError."""
        for container in self.list_containers(pod_sandbox_id):
            self.stop_container(container.id, 0)
        self._sandboxes.stop(pod_sandbox_id)

    def remove_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Stop and remove a sandbox and its containers. Raises RuntimeServiceError."""
        self.stop_pod_sandbox(pod_sandbox_id)
        for container in self.list_containers(pod_sandbox_id):
            self.remove_container(container.id)
        self._sandboxes.remove(pod_sandbox_id)

    def pod_sandbox_status(self, pod_sandbox_id: str) -> PodSandboxStatus:
        """Return a sandbox. Raises NotFoundError."""
        return self._sandboxes.status(pod_sandbox_id)

    def list_pod_sandbox(self, labels: Mapping[str, str] | None = None) -> list[PodSandboxStatus]:
        """Return the sandboxes with these labels."""
        return self._sandboxes.list(labels)
