"""The messages of the Container Runtime Interface, version 1, as far as this project uses them.

Names and meanings are those of `k8s.io/cri-api/pkg/apis/runtime/v1/api.proto`. Times are nanoseconds since 1970, 0 for
"not yet".
"""

from enum import StrEnum
from typing import Final, TypeVar

from skel.decoders import boolean, dict_of, integer, list_of, optional, record, string
from skel.record import Decoder, Record, expected, field

E = TypeVar("E", bound=StrEnum)


def member_of(enumeration: type[E], words: str) -> Decoder[E]:
    """Return the decoder of one of the values of `enumeration`; `words` tell in an error what was expected."""

    def decode_member(value: object, path: str) -> E:
        try:
            return enumeration(string(value, path))
        except ValueError:
            raise expected(words, value, path) from None

    return decode_member


class NamespaceMode(StrEnum):
    """Whose namespace a container gets."""

    POD = "POD"
    CONTAINER = "CONTAINER"
    NODE = "NODE"


class ProfileType(StrEnum):
    """A kind of security profile: the runtime's own, none, or one of the node."""

    RUNTIME_DEFAULT = "RuntimeDefault"
    UNCONFINED = "Unconfined"
    LOCALHOST = "Localhost"


class PodSandboxState(StrEnum):
    """The two states of a sandbox that the interface knows."""

    READY = "SANDBOX_READY"
    NOTREADY = "SANDBOX_NOTREADY"


class ContainerState(StrEnum):
    """The states of a container."""

    CREATED = "CONTAINER_CREATED"
    RUNNING = "CONTAINER_RUNNING"
    EXITED = "CONTAINER_EXITED"
    UNKNOWN = "CONTAINER_UNKNOWN"


RUNTIME_READY: Final = "RuntimeReady"
NETWORK_READY: Final = "NetworkReady"


_namespace_mode = member_of(NamespaceMode, "POD, CONTAINER or NODE")
_profile_type = member_of(ProfileType, "RuntimeDefault, Unconfined or Localhost")
_sandbox_state = member_of(PodSandboxState, "a state of a sandbox")
_container_state = member_of(ContainerState, "a state of a container")
_strings: Decoder[list[str]] = list_of(string)
_by_name: Decoder[dict[str, str]] = dict_of(string)


class PodSandboxMetadata(Record):
    """The identity of a sandbox; `attempt` counts the sandboxes that the pod had before."""

    name: str = field(string)
    uid: str = field(string)
    namespace: str = field(string)
    attempt: int = field(integer, default=0)


class PortMapping(Record):
    """A port of the node that leads to one of the pod; `protocol` is TCP, UDP or SCTP."""

    protocol: str = field(string, default="TCP")
    container_port: int = field(integer)
    host_port: int = field(integer)
    host_ip: str = field(string, default="")


class DNSConfig(Record):
    """The resolver settings of a sandbox."""

    servers: list[str] = field(_strings, default=list)
    searches: list[str] = field(_strings, default=list)
    options: list[str] = field(_strings, default=list)


class PodSandboxConfig(Record):
    """Everything that a runtime needs to run a sandbox.

    Without `dns_config` the sandbox gets the node's resolv.conf. `network`, `pid` and `ipc` are the namespaces of its
    containers. `cgroup_parent` is a path below /sys/fs/cgroup, empty for none. `privileged` tells that one of its
    containers will be.
    """

    metadata: PodSandboxMetadata = field(record(PodSandboxMetadata))
    hostname: str = field(string, default="")
    log_directory: str = field(string, default="")
    dns_config: DNSConfig | None = field(optional(record(DNSConfig)), default=None)
    port_mappings: list[PortMapping] = field(list_of(record(PortMapping)), default=list)
    labels: dict[str, str] = field(_by_name, default=dict)
    annotations: dict[str, str] = field(_by_name, default=dict)
    cgroup_parent: str = field(string, default="")
    sysctls: dict[str, str] = field(_by_name, default=dict)
    network: NamespaceMode = field(_namespace_mode, default=NamespaceMode.POD)
    pid: NamespaceMode = field(_namespace_mode, default=NamespaceMode.CONTAINER)
    ipc: NamespaceMode = field(_namespace_mode, default=NamespaceMode.POD)
    privileged: bool = field(boolean, default=False)


class PodSandboxStatus(Record):
    """A sandbox as the runtime sees it; `ips` are empty if it is on the node's network. `info` is for people."""

    id: str = field(string)
    metadata: PodSandboxMetadata = field(record(PodSandboxMetadata))
    state: PodSandboxState = field(_sandbox_state)
    created_at: int = field(integer)
    ips: list[str] = field(_strings, default=list)
    network: NamespaceMode = field(_namespace_mode, default=NamespaceMode.POD)
    labels: dict[str, str] = field(_by_name, default=dict)
    annotations: dict[str, str] = field(_by_name, default=dict)
    info: dict[str, str] = field(_by_name, default=dict)


class ContainerMetadata(Record):
    """The identity of a container in its sandbox; `attempt` counts restarts."""

    name: str = field(string)
    attempt: int = field(integer, default=0)


class KeyValue(Record):
    """An environment variable."""

    key: str = field(string)
    value: str = field(string, default="")


class Mount(Record):
    """A file or folder of the node that appears in a container. `propagation` is private, rslave or rshared.

    `recursive_read_only` is for a mount that is `readonly`: then the file systems mounted below it are so, too.
    """

    container_path: str = field(string)
    host_path: str = field(string)
    readonly: bool = field(boolean, default=False)
    propagation: str = field(string, default="private")
    recursive_read_only: bool = field(boolean, default=False)


class Resources(Record):
    """Limits of a container: CPU times in microseconds, memory in bytes; 0 is no limit."""

    cpu_period: int = field(integer, default=0)
    cpu_quota: int = field(integer, default=0)
    cpu_shares: int = field(integer, default=0)
    memory_limit_in_bytes: int = field(integer, default=0)
    oom_score_adj: int = field(integer, default=0)


class SecurityProfile(Record):
    """A profile of seccomp or AppArmor; `localhost_ref` names one of the node: a file, or a loaded profile."""

    profile_type: ProfileType = field(_profile_type, default=ProfileType.UNCONFINED)
    localhost_ref: str = field(string, default="")


class ContainerSecurity(Record):
    """The rights of a container's processes; without `run_as_user` the image's user applies.

    Without `apparmor` the runtime decides: containerd takes its own profile if the machine has AppArmor.
    """

    privileged: bool = field(boolean, default=False)
    run_as_user: int | None = field(optional(integer), default=None)
    run_as_group: int | None = field(optional(integer), default=None)
    supplemental_groups: list[int] = field(list_of(integer), default=list)
    readonly_rootfs: bool = field(boolean, default=False)
    no_new_privs: bool = field(boolean, default=False)
    add_capabilities: list[str] = field(_strings, default=list)
    drop_capabilities: list[str] = field(_strings, default=list)
    seccomp: SecurityProfile = field(record(SecurityProfile), default=SecurityProfile)
    apparmor: SecurityProfile | None = field(optional(record(SecurityProfile)), default=None)


class ContainerConfig(Record):
    """Everything that a runtime needs to create a container.

    `image` is the reference or the ID of an image, empty for a command on the node's own files. `log_path` is relative
    to the sandbox's log directory.
    """

    metadata: ContainerMetadata = field(record(ContainerMetadata))
    image: str = field(string, default="")
    command: list[str] = field(_strings, default=list)
    args: list[str] = field(_strings, default=list)
    working_dir: str = field(string, default="")
    envs: list[KeyValue] = field(list_of(record(KeyValue)), default=list)
    mounts: list[Mount] = field(list_of(record(Mount)), default=list)
    labels: dict[str, str] = field(_by_name, default=dict)
    annotations: dict[str, str] = field(_by_name, default=dict)
    log_path: str = field(string, default="")
    stdin: bool = field(boolean, default=False)
    stdin_once: bool = field(boolean, default=False)
    tty: bool = field(boolean, default=False)
    resources: Resources = field(record(Resources), default=Resources)
    security: ContainerSecurity = field(record(ContainerSecurity), default=ContainerSecurity)


class Container(Record):
    """A container in a list of containers."""

    id: str = field(string)
    pod_sandbox_id: str = field(string)
    metadata: ContainerMetadata = field(record(ContainerMetadata))
    image: str = field(string, default="")
    image_ref: str = field(string, default="")
    state: ContainerState = field(_container_state)
    created_at: int = field(integer)
    labels: dict[str, str] = field(_by_name, default=dict)
    annotations: dict[str, str] = field(_by_name, default=dict)


class ContainerUser(Record):
    """The user of a container's first process; `supplemental_groups` are all its groups."""

    uid: int = field(integer, default=0)
    gid: int = field(integer, default=0)
    supplemental_groups: list[int] = field(list_of(integer), default=list)


class ContainerStatus(Container):
    """A container in full; `reason` is one word in CamelCase, `message` is for people."""

    started_at: int = field(integer, default=0)
    finished_at: int = field(integer, default=0)
    exit_code: int = field(integer, default=0)
    reason: str = field(string, default="")
    message: str = field(string, default="")
    mounts: list[Mount] = field(list_of(record(Mount)), default=list)
    log_path: str = field(string, default="")
    user: ContainerUser | None = field(optional(record(ContainerUser)), default=None)


class ExecSyncResult(Record):
    """The outcome of a command in a container; the texts are cut at 16 MiB, as by containerd."""

    stdout: str = field(string, default="")
    stderr: str = field(string, default="")
    exit_code: int = field(integer, default=0)


class Image(Record):
    """An image; `size` is in bytes, `user` that of its configuration."""

    id: str = field(string)
    repo_tags: list[str] = field(_strings, default=list)
    repo_digests: list[str] = field(_strings, default=list)
    size: int = field(integer, default=0)
    user: str = field(string, default="")


class RuntimeCondition(Record):
    """A condition of the runtime: RuntimeReady or NetworkReady."""

    type: str = field(string)
    status: bool = field(boolean)
    reason: str = field(string, default="")
    message: str = field(string, default="")


class RuntimeStatus(Record):
    """The conditions of a runtime."""

    conditions: list[RuntimeCondition] = field(list_of(record(RuntimeCondition)), default=list)


class RuntimeVersion(Record):
    """The runtime's name and version, and that of the interface."""

    runtime_name: str = field(string)
    runtime_version: str = field(string)
    runtime_api_version: str = field(string)
