"""The calls of the Container Runtime Interface, answered by a runtime behind a Unix socket.

Time limits are those of kubelet's client (k8s.io/cri-client, remote_runtime.go).
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Self

import grpc

from harness.cri.capability_args import capability_args
from harness.cri.hidden_paths import MASKED_PATHS, READONLY_PATHS
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
from harness.cri.remote import api_pb2
from harness.cri.remote.api_pb2_grpc import ImageServiceStub, RuntimeServiceStub
from harness.cri.remote.exec_stream import execute_with_own_streams
from harness.cri.remote.grpc_calls import RemoteError, call, with_trace_context
from harness.cri.remote.wire import from_wire, networks, to_wire
from harness.cri.service import ImageNotFoundError, RuntimeServiceError
from harness.runtime.unserved_requests import UnservedRequest, unserved_requests

REQUEST_TIMEOUT_S: Final = 120.0
"""kubelet's --runtime-request-timeout."""
OWNER_LABEL: Final = "cni-harness/owner"
"""Which kubelet of this project made a sandbox or a container."""

_MESSAGE_BYTES: Final = 40 << 20
"""ExecSync returns up to 16 MiB of each stream."""
_SCHEME: Final = "unix://"


class RemoteRuntime:
    """A RuntimeService, and as `images` an ImageService; a context manager that ends the connection.

    With an `owner`, it labels sandboxes and containers with it, and lists no others: another kubelet's pods in the same
    runtime are neither seen nor ended.
    """

    def __init__(self, endpoint: str, *, owner: str = "", timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Take an endpoint, as unix:///run/containerd/containerd.sock or a path. Raises RuntimeServiceError."""
        self._owner = {OWNER_LABEL: owner} if owner else {}
        self._timeout_s = timeout_s
        self._channel = grpc.insecure_channel(
            _target(endpoint),
            options=[
                ("grpc.default_authority", "localhost"),  # some servers refuse the escaped path of the socket
                ("grpc.enable_http_proxy", 0),
                ("grpc.max_receive_message_length", _MESSAGE_BYTES),
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )
        traced = with_trace_context(self._channel)
        self._stub = RuntimeServiceStub(traced)
        self.images = RemoteImages(traced, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and with it the calls that have no answer yet."""
        self._channel.close()

    def version(self, *, wait_s: float = 0) -> RuntimeVersion:
        """Return the names and versions of runtime and interface; wait so long for a runtime that does not listen."""
        method = partial(self._stub.Version, wait_for_ready=wait_s > 0)
        request = api_pb2.VersionRequest(version="0.1.0")
        answer: api_pb2.VersionResponse = call(method, request, wait_s or self._timeout_s)
        return from_wire(answer, RuntimeVersion)

    def status(self) -> RuntimeStatus:
        """Return the conditions RuntimeReady and NetworkReady, and the runtime's own."""
        return from_wire(self._status().status, RuntimeStatus)

    def makes_recursive_read_only(self) -> bool:
        """Tell whether the default handler says so; containerd does since 2.0."""
        handlers = self._status().runtime_handlers
        return any(not each.name and each.features.recursive_read_only_mounts for each in handlers)

    def run_pod_sandbox(self, config: PodSandboxConfig) -> str:
        """Make a sandbox and return its ID; takes twice the time of other calls at most."""
        request = api_pb2.RunPodSandboxRequest(config=self._sandbox(config))
        answer: api_pb2.RunPodSandboxResponse = call(self._stub.RunPodSandbox, request, 2 * self._timeout_s)
        return answer.pod_sandbox_id

    def unserved_requests(self, pod_sandbox_id: str, config: PodSandboxConfig) -> list[UnservedRequest]:
        """Return the requests that no plugin gets of the lists that the runtime uses now; containerd alone tells them.

        The runtime keeps no list of a sandbox, so `pod_sandbox_id` is not asked for.
        """
        del pod_sandbox_id
        return unserved_requests(networks(self._status(verbose=True).info, capability_args(config)))

    def stop_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """End all containers of a sandbox by force, then remove its network. A missing one is fine."""
        request = api_pb2.StopPodSandboxRequest(pod_sandbox_id=pod_sandbox_id)
        call(self._stub.StopPodSandbox, request, self._timeout_s)

    def remove_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Stop a sandbox, and remove it and its containers. A missing one is fine."""
        request = api_pb2.RemovePodSandboxRequest(pod_sandbox_id=pod_sandbox_id)
        call(self._stub.RemovePodSandbox, request, self._timeout_s)

    def pod_sandbox_status(self, pod_sandbox_id: str, *, verbose: bool = False) -> PodSandboxStatus:
        """Return one sandbox; `verbose` fills `info` with the runtime's own words. Raises NotFoundError."""
        request = api_pb2.PodSandboxStatusRequest(pod_sandbox_id=pod_sandbox_id, verbose=verbose)
        answer: api_pb2.PodSandboxStatusResponse = call(self._stub.PodSandboxStatus, request, self._timeout_s)
        return from_wire(answer.status, PodSandboxStatus, info=dict(answer.info))

    def list_pod_sandbox(self, labels: Mapping[str, str] | None = None) -> list[PodSandboxStatus]:
        """Return the owner's sandboxes with these labels, without their addresses."""
        selected = api_pb2.PodSandboxFilter(label_selector={**(labels or {}), **self._owner})
        request = api_pb2.ListPodSandboxRequest(filter=selected)
        answer: api_pb2.ListPodSandboxResponse = call(self._stub.ListPodSandbox, request, self._timeout_s)
        return [from_wire(each, PodSandboxStatus) for each in answer.items]

    def create_container(self, pod_sandbox_id: str, config: ContainerConfig, sandbox: PodSandboxConfig) -> str:
        """Create a container and return its ID. Raises ImageNotFoundError if it names no image."""
        if not config.image:
            raise ImageNotFoundError("the container names no image, and this runtime runs none without")
        container = container_config(config, sandbox)
        container.labels.update(self._owner)
        request = api_pb2.CreateContainerRequest(
            pod_sandbox_id=pod_sandbox_id, config=container, sandbox_config=self._sandbox(sandbox)
        )
        answer: api_pb2.CreateContainerResponse = call(self._stub.CreateContainer, request, self._timeout_s)
        return answer.container_id

    def start_container(self, container_id: str) -> None:
        """Start a container. If that fails, its state is exited, with a reason."""
        request = api_pb2.StartContainerRequest(container_id=container_id)
        call(self._stub.StartContainer, request, self._timeout_s)

    def stop_container(self, container_id: str, timeout_s: int) -> None:
        """Send the stop signal, and SIGKILL `timeout_s` seconds later; return when the container has ended."""
        request = api_pb2.StopContainerRequest(container_id=container_id, timeout=timeout_s)
        call(self._stub.StopContainer, request, self._timeout_s + timeout_s)

    def remove_container(self, container_id: str) -> None:
        """Remove a container, by force if it runs. A missing one is fine."""
        request = api_pb2.RemoveContainerRequest(container_id=container_id)
        call(self._stub.RemoveContainer, request, self._timeout_s)

    def list_containers(self, pod_sandbox_id: str = "", labels: Mapping[str, str] | None = None) -> list[Container]:
        """Return the owner's containers, of a sandbox or of all, with these labels."""
        wanted = {**(labels or {}), **self._owner}
        selected = api_pb2.ContainerFilter(pod_sandbox_id=pod_sandbox_id, label_selector=wanted)
        request = api_pb2.ListContainersRequest(filter=selected)
        answer: api_pb2.ListContainersResponse = call(self._stub.ListContainers, request, self._timeout_s)
        return [from_wire(each, Container) for each in answer.containers]

    def container_status(self, container_id: str) -> ContainerStatus:
        """Return one container, without its sandbox's ID. Raises NotFoundError."""
        request = api_pb2.ContainerStatusRequest(container_id=container_id)
        answer: api_pb2.ContainerStatusResponse = call(self._stub.ContainerStatus, request, self._timeout_s)
        return from_wire(answer.status, ContainerStatus, pod_sandbox_id="")

    def exec_sync(self, container_id: str, command: Sequence[str], timeout_s: float) -> ExecSyncResult:
        """Run a command in a container; limits are whole seconds, and 0 is none. Raises TimeoutError."""
        seconds = math.ceil(timeout_s)
        request = api_pb2.ExecSyncRequest(container_id=container_id, cmd=command, timeout=seconds)
        limit_s = self._timeout_s + seconds if seconds else None
        try:
            answer: api_pb2.ExecSyncResponse = call(self._stub.ExecSync, request, limit_s)
        except RemoteError as error:
            if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise TimeoutError(
                    f'command timed out: "{" ".join(command)}" timed out after {timeout_s:g}s'
                ) from error
            raise
        return from_wire(answer, ExecSyncResult)

    def exec(self, container_id: str, command: Sequence[str], *, tty: bool, stdin: bool) -> int:
        """Run a command in a container with this process's streams, and return its exit code."""
        # A terminal has one stream for output and errors, and the interface forbids to ask for both.
        request = api_pb2.ExecRequest(
            container_id=container_id, cmd=command, tty=tty, stdin=stdin, stdout=True, stderr=not tty
        )
        answer: api_pb2.ExecResponse = call(self._stub.Exec, request, self._timeout_s)
        return execute_with_own_streams(answer.url, terminal=tty, stdin=stdin)

    def _status(self, *, verbose: bool = False) -> api_pb2.StatusResponse:
        request = api_pb2.StatusRequest(verbose=verbose)
        answer: api_pb2.StatusResponse = call(self._stub.Status, request, self._timeout_s)
        return answer

    def _sandbox(self, config: PodSandboxConfig) -> api_pb2.PodSandboxConfig:
        made = sandbox_config(config)
        made.labels.update(self._owner)
        return made


def sandbox_config(config: PodSandboxConfig) -> api_pb2.PodSandboxConfig:
    """Return the request for a sandbox.

    The pause process has the runtime's profile, whatever the containers have (kuberuntime_sandbox_linux.go).
    """
    made = to_wire(config, api_pb2.PodSandboxConfig)
    made.linux.security_context.seccomp.profile_type = api_pb2.SecurityProfile.RuntimeDefault
    made.linux.security_context.seccomp.SetInParent()  # the type is 0
    return made


def container_config(config: ContainerConfig, sandbox: PodSandboxConfig) -> api_pb2.ContainerConfig:
    """Return the request for a container in a sandbox, with the paths that kubelet hides."""
    made = to_wire(config, api_pb2.ContainerConfig)
    security = made.linux.security_context
    security.namespace_options.CopyFrom(sandbox_config(sandbox).linux.security_context.namespace_options)
    security.masked_paths.extend(MASKED_PATHS)
    security.readonly_paths.extend(READONLY_PATHS)
    return made


def _target(endpoint: str) -> str:
    path = endpoint.removeprefix(_SCHEME)
    if not path.startswith("/"):
        raise RuntimeServiceError(f"runtime endpoint {endpoint}: only a Unix socket is supported, as {_SCHEME}/PATH")
    return f"{_SCHEME}{path}"


class RemoteImages:
    """An ImageService; each method raises RuntimeServiceError."""

    are_required = True

    def __init__(self, channel: grpc.Channel, timeout_s: float) -> None:
        """Take an open channel, and the seconds that a call may take."""
        self._stub = ImageServiceStub(channel)
        self._timeout_s = timeout_s

    def list_images(self) -> list[Image]:
        """Return all images."""
        request = api_pb2.ListImagesRequest()
        answer: api_pb2.ListImagesResponse = call(self._stub.ListImages, request, self._timeout_s)
        return [from_wire(each, Image) for each in answer.images]

    def image_status(self, image: str) -> Image | None:
        """Return the image of a reference or an ID; None if the runtime does not have it."""
        request = api_pb2.ImageStatusRequest(image=api_pb2.ImageSpec(image=image))
        answer: api_pb2.ImageStatusResponse = call(self._stub.ImageStatus, request, self._timeout_s)
        return from_wire(answer.image, Image) if answer.HasField("image") else None

    def pull_image(self, image: str) -> str:
        """Fetch an image, without a time limit as in kubelet, and return its ID."""
        request = api_pb2.PullImageRequest(image=api_pb2.ImageSpec(image=image))
        answer: api_pb2.PullImageResponse = call(self._stub.PullImage, request, None)
        return answer.image_ref

    def remove_image(self, image: str) -> None:
        """Remove an image. A missing one is fine."""
        call(self._stub.RemoveImage, api_pb2.RemoveImageRequest(image=api_pb2.ImageSpec(image=image)), self._timeout_s)
