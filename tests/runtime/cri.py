"""What kubelet says to a runtime: pods and containers over the Container Runtime Interface, version 1."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from tests.runtime.oci import BUSYBOX

__all__ = ["Cri", "CriError", "Pod"]

CriError = grpc.RpcError
"""The runtime's answer to a request that failed; `details()` has its words."""

SECONDS = 120
"""A call may take so long: the machine may have much else to do."""

_messages, _services = grpc.protos_and_services("tests/runtime/cri.proto")


class Pod(NamedTuple):
    """A sandbox that runs."""

    id: str
    config: Any
    """The PodSandboxConfig that it was made of."""


class Cri:
    """A client of the runtime that listens at a socket; `close` ends the connection."""

    def __init__(self, socket: Path, cgroup_parent: str) -> None:
        """Connect; the pods' cgroups will be below `cgroup_parent`."""
        self._channel = grpc.insecure_channel(f"unix://{socket}", options=[("grpc.use_local_subchannel_pool", 1)])
        self._runtime = _services.RuntimeServiceStub(self._channel)
        self._images = _services.ImageServiceStub(self._channel)
        self._cgroup_parent = cgroup_parent

    def close(self) -> None:
        """End the connection, and with it the calls that have no answer yet."""
        self._channel.close()

    def version(self) -> str:
        """The runtime's name and version, once it answers."""
        answer = self._runtime.Version(_messages.VersionRequest(), timeout=SECONDS, wait_for_ready=True)
        return f"{answer.runtime_name} {answer.runtime_version}"

    def is_ready(self) -> bool:
        """Whether it does as asked; it answers some time before, while it reads the state of the one before it."""
        try:
            self.pods()
        except CriError as error:
            if "not initialized" not in error.details():
                raise
            return False
        return True

    def has_image(self, name: str) -> bool:
        """Whether pods can be made of an image."""
        image = _messages.ImageSpec(image=name)
        answer = self._images.ImageStatus(_messages.ImageStatusRequest(image=image), timeout=SECONDS)
        return bool(answer.image.id)

    def run_pod(self, name: str, ports: Mapping[int, int] | None = None) -> Pod:
        """Run a pod without containers; `ports` are TCP ports of the node, each with the pod's. Raises CriError."""
        mappings = [_messages.PortMapping(host_port=host, container_port=own) for host, own in (ports or {}).items()]
        config = _messages.PodSandboxConfig(
            metadata=_messages.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="tests"),
            hostname=name,
            dns_config=_messages.DNSConfig(servers=["192.0.2.53"]),
            port_mappings=mappings,
            linux=_messages.LinuxPodSandboxConfig(cgroup_parent=self._cgroup_parent),
        )
        answer = self._runtime.RunPodSandbox(_messages.RunPodSandboxRequest(config=config), timeout=SECONDS)
        return Pod(answer.pod_sandbox_id, config)

    def stop_pod(self, pod_id: str) -> None:
        """End all that runs in a pod, and its network. Raises CriError."""
        self._runtime.StopPodSandbox(_messages.PodSandboxRequest(pod_sandbox_id=pod_id), timeout=SECONDS)

    def remove_pod(self, pod_id: str) -> None:
        """Forget a pod. Raises CriError."""
        self._runtime.RemovePodSandbox(_messages.PodSandboxRequest(pod_sandbox_id=pod_id), timeout=SECONDS)

    def pods(self) -> dict[str, str]:
        """The names of the pods that the runtime knows, by ID."""
        answer = self._runtime.ListPodSandbox(_messages.Empty(), timeout=SECONDS)
        return {each.id: each.metadata.name for each in answer.items}

    def addresses(self, pod: Pod) -> list[str]:
        """The pod's addresses, as kubelet learns them."""
        network = self._status(pod).status.network
        return [network.ip, *(each.ip for each in network.additional_ips)]

    def namespace(self, pod: Pod) -> str:
        """The path of the pod's network namespace, as the runtime sees it."""
        spec = json.loads(self._status(pod).info["info"])["runtimeSpec"]
        [path] = [each["path"] for each in spec["linux"]["namespaces"] if each["type"] == "network"]
        found: str = path
        return found

    def run_container(self, pod: Pod) -> str:
        """Run a container with busybox that does nothing; return its ID."""
        config = _messages.ContainerConfig(
            metadata=_messages.ContainerMetadata(name="busybox"),
            image=_messages.ImageSpec(image=BUSYBOX),
            command=["sleep", "infinity"],
        )
        request = _messages.CreateContainerRequest(pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
        container_id: str = self._runtime.CreateContainer(request, timeout=SECONDS).container_id
        self._runtime.StartContainer(_messages.ContainerRequest(container_id=container_id), timeout=SECONDS)
        return container_id

    def execute(self, container_id: str, *command: str) -> tuple[int, str]:
        """Execute a command in a container; return its exit code and output."""
        request = _messages.ExecSyncRequest(container_id=container_id, cmd=command, timeout=SECONDS)
        answer = self._runtime.ExecSync(request, timeout=SECONDS)
        return answer.exit_code, (answer.stdout + answer.stderr).decode()

    def _status(self, pod: Pod) -> Any:
        request = _messages.PodSandboxStatusRequest(pod_sandbox_id=pod.id, verbose=True)
        return self._runtime.PodSandboxStatus(request, timeout=SECONDS)
