"""Answers of a runtime, as this project's messages."""

import json
from collections.abc import Mapping
from typing import Final

from harness.cri.messages import (
    Container,
    ContainerMetadata,
    ContainerState,
    ContainerStatus,
    ContainerUser,
    Image,
    Mount,
    NamespaceMode,
    PodSandboxMetadata,
    PodSandboxState,
    PodSandboxStatus,
)
from harness.cri.remote import api_pb2
from harness.runtime.pods import PodNetwork
from skel.decoders import list_of, record, string
from skel.errors import CniError
from skel.record import Record, field

_PROPAGATIONS: Final = {
    api_pb2.PROPAGATION_PRIVATE: "private",
    api_pb2.PROPAGATION_HOST_TO_CONTAINER: "rslave",
    api_pb2.PROPAGATION_BIDIRECTIONAL: "rshared",
}


class _List(Record):
    name: str = field(string, default="")
    source: str = field(string, default="")


class _Network(Record):
    config: _List = field(record(_List), default=_List)
    ifname: str = field(string, "ifName", default="")


class _Lists(Record):
    networks: list[_Network] = field(list_of(record(_Network)), default=list)


def sandbox_status(answer: api_pb2.PodSandboxStatusResponse) -> PodSandboxStatus:
    """Return a sandbox in full."""
    status = answer.status
    options = status.linux.namespaces.options
    ips = [status.network.ip, *(each.ip for each in status.network.additional_ips)]
    return PodSandboxStatus(
        id=status.id,
        metadata=_sandbox_metadata(status.metadata),
        state=_sandbox_state(status.state),
        created_at=status.created_at,
        ips=[ip for ip in ips if ip],
        network=NamespaceMode(api_pb2.NamespaceMode.Name(options.network)),
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        info=dict(answer.info),
    )


def listed_sandbox(sandbox: api_pb2.PodSandbox) -> PodSandboxStatus:
    """Return a sandbox of a list, which has neither addresses nor namespaces."""
    return PodSandboxStatus(
        id=sandbox.id,
        metadata=_sandbox_metadata(sandbox.metadata),
        state=_sandbox_state(sandbox.state),
        created_at=sandbox.created_at,
        labels=dict(sandbox.labels),
        annotations=dict(sandbox.annotations),
    )


def networks(info: Mapping[str, str], capability_args: Mapping[str, object]) -> list[PodNetwork]:
    """Return the networks of a pod with these arguments; none if the runtime's status does not tell them.

    `cniconfig` is go-cni's ConfigResult as JSON, which containerd adds to its verbose status. `Source` is the list's
    own text.
    """
    try:
        listed = _Lists.decode(json.loads(info.get("cniconfig", "{}")))
    except (ValueError, CniError):
        return []
    arguments = dict(capability_args)
    return [
        PodNetwork(name=each.config.name, ifname=each.ifname, config=each.config.source, capability_args=arguments)
        for each in listed.networks
    ]


def container(container: api_pb2.Container) -> Container:
    """Return a container of a list."""
    return Container(
        id=container.id,
        pod_sandbox_id=container.pod_sandbox_id,
        metadata=ContainerMetadata(name=container.metadata.name, attempt=container.metadata.attempt),
        image=container.image.image,
        image_ref=container.image_ref,
        state=_container_state(container.state),
        created_at=container.created_at,
        labels=dict(container.labels),
        annotations=dict(container.annotations),
    )


def container_status(status: api_pb2.ContainerStatus) -> ContainerStatus:
    """Return a container in full; the interface tells its sandbox in lists alone."""
    return ContainerStatus(
        id=status.id,
        pod_sandbox_id="",
        metadata=ContainerMetadata(name=status.metadata.name, attempt=status.metadata.attempt),
        image=status.image.image,
        image_ref=status.image_ref,
        state=_container_state(status.state),
        created_at=status.created_at,
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        started_at=status.started_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code,
        reason=status.reason,
        message=status.message,
        mounts=[_mount(each) for each in status.mounts],
        log_path=status.log_path,
        user=_user(status.user.linux) if status.user.HasField("linux") else None,
    )


def _user(user: api_pb2.LinuxContainerUser) -> ContainerUser:
    return ContainerUser(uid=user.uid, gid=user.gid, supplemental_groups=list(user.supplemental_groups))


def image(image: api_pb2.Image) -> Image:
    """Return an image; its user is a number or a name."""
    return Image(
        id=image.id,
        repo_tags=list(image.repo_tags),
        repo_digests=list(image.repo_digests),
        size=image.size,
        user=str(image.uid.value) if image.HasField("uid") else image.username,
    )


def _sandbox_metadata(metadata: api_pb2.PodSandboxMetadata) -> PodSandboxMetadata:
    return PodSandboxMetadata(
        name=metadata.name, uid=metadata.uid, namespace=metadata.namespace, attempt=metadata.attempt
    )


def _sandbox_state(state: api_pb2.PodSandboxState) -> PodSandboxState:
    return PodSandboxState(api_pb2.PodSandboxState.Name(state))


def _container_state(state: api_pb2.ContainerState) -> ContainerState:
    return ContainerState(api_pb2.ContainerState.Name(state))


def _mount(mount: api_pb2.Mount) -> Mount:
    return Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        readonly=mount.readonly,
        propagation=_PROPAGATIONS[mount.propagation],
        recursive_read_only=mount.recursive_read_only,
    )
