"""Pods and containers for tests, made as kubelet makes them: over the Container Runtime Interface, version 1."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from harness.cri.messages import (
    ContainerConfig,
    ContainerMetadata,
    DNSConfig,
    PodSandboxConfig,
    PodSandboxMetadata,
    PortMapping,
)
from harness.cri.remote.client import REQUEST_TIMEOUT_S, RemoteRuntime
from harness.cri.remote.grpc_calls import RemoteError
from tests.runtime.oci import BUSYBOX

CriError = RemoteError
"""The runtime's answer to a request that failed; its text has the runtime's words."""

SECONDS = int(REQUEST_TIMEOUT_S)
"""A call may take so long: the machine may have much else to do."""


class Pod(NamedTuple):
    """A sandbox that runs."""

    id: str
    config: PodSandboxConfig


class Cri:
    """The runtime that listens at a socket; `close` ends the connection."""

    def __init__(self, socket: Path, cgroup_parent: str) -> None:
        """Connect; the pods' cgroups will be below `cgroup_parent`."""
        self._runtime = RemoteRuntime(f"unix://{socket}")
        self._cgroup_parent = cgroup_parent

    def close(self) -> None:
        """End the connection, and with it the calls that have no answer yet."""
        self._runtime.close()

    def version(self) -> str:
        """The runtime's name and version, once it answers."""
        version = self._runtime.version(wait_s=SECONDS)
        return f"{version.runtime_name} {version.runtime_version}"

    def is_ready(self) -> bool:
        """Whether it does as asked; it answers some time before, while it reads the state of the one before it."""
        try:
            self.pods()
        except CriError as error:
            if "not initialized" not in str(error):
                raise
            return False
        return True

    def has_image(self, name: str) -> bool:
        """Whether pods can be made of an image."""
        return self._runtime.images.image_status(name) is not None

    def run_pod(self, name: str, ports: Mapping[int, int] | None = None) -> Pod:
        """Run a pod without containers; `ports` are TCP ports of the node, each with the pod's. Raises CriError."""
        config = PodSandboxConfig(
            metadata=PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="tests"),
            hostname=name,
            dns_config=DNSConfig(servers=["192.0.2.53"]),
            port_mappings=[PortMapping(host_port=host, container_port=own) for host, own in (ports or {}).items()],
            cgroup_parent=self._cgroup_parent,
        )
        return Pod(self._runtime.run_pod_sandbox(config), config)

    def stop_pod(self, pod_id: str) -> None:
        """End all that runs in a pod, and its network. Raises CriError."""
        self._runtime.stop_pod_sandbox(pod_id)

    def remove_pod(self, pod_id: str) -> None:
        """Forget a pod. Raises CriError."""
        self._runtime.remove_pod_sandbox(pod_id)

    def pods(self) -> dict[str, str]:
        """The names of the pods that the runtime knows, by ID."""
        return {each.id: each.metadata.name for each in self._runtime.list_pod_sandbox()}

    def addresses(self, pod: Pod) -> list[str]:
        """The pod's addresses, as kubelet learns them."""
        return self._runtime.pod_sandbox_status(pod.id).ips

    def namespace(self, pod: Pod) -> str:
        """The path of the pod's network namespace, as the runtime sees it."""
        info = self._runtime.pod_sandbox_status(pod.id, verbose=True).info
        spec = json.loads(info["info"])["runtimeSpec"]
        [path] = [each["path"] for each in spec["linux"]["namespaces"] if each["type"] == "network"]
        found: str = path
        return found

    def run_container(self, pod: Pod) -> str:
        """Run a container with busybox that does nothing; return its ID."""
        config = ContainerConfig(
            metadata=ContainerMetadata(name="busybox"), image=BUSYBOX, command=["sleep", "infinity"]
        )
        container_id = self._runtime.create_container(pod.id, config, pod.config)
        self._runtime.start_container(container_id)
        return container_id

    def execute(self, container_id: str, *command: str) -> tuple[int, str]:
        """Execute a command in a container; return its exit code and output."""
        result = self._runtime.exec_sync(container_id, command, SECONDS)
        return result.exit_code, result.stdout + result.stderr
