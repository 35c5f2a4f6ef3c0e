"""The objects of a Pod manifest (Kubernetes API v1), as far as a node without API server uses them.

Names, keys and defaults are those of https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/;
`defaults` fills in what a manifest leaves out, `pod_validation` holds a pod to the API server's rules. Quantities are
text as in the manifest (`100m`, `64Mi`).
"""

from skel.decoders import boolean, dict_of, integer, list_of, optional, record, string
from skel.record import Decoder, Record, expected, field

__all__ = [
    "V1ConfigMapVolume",
    "V1Container",
    "V1ContainerPort",
    "V1EmptyDirVolume",
    "V1EnvVar",
    "V1ExecAction",
    "V1HTTPGetAction",
    "V1Handler",
    "V1HostPathVolume",
    "V1KeyToPath",
    "V1Lifecycle",
    "V1Metadata",
    "V1Pod",
    "V1PodDNSConfig",
    "V1PodSpec",
    "V1Probe",
    "V1Resources",
    "V1SecurityContext",
    "V1SleepAction",
    "V1TCPSocketAction",
    "V1Volume",
    "V1VolumeMount",
]

_strings: Decoder[list[str]] = list_of(string)
_by_name: Decoder[dict[str, str]] = dict_of(string)


def _port(value: object, path: str) -> int | str:
    """Read a port: a number, or the name of a port of the container."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise expected("a port's number or name", value, path)
    return value


def _quantity(value: object, path: str) -> str:
    """Read a quantity; YAML makes a number of `1`."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise expected("a quantity", value, path)
    return str(value)


class V1ExecAction(Record):
    """A command to run in the container; no shell is around it."""

    command: list[str] = field(_strings, default=list)


class V1HTTPHeader(Record):
    """A header of a request."""

    name: str = field(string)
    value: str = field(string, default="")


class V1HTTPGetAction(Record):
    """A request to the pod, or to `host`; `scheme` is HTTP or HTTPS."""

    path: str = field(string, default="")
    port: int | str = field(_port)
    host: str = field(string, default="")
    scheme: str = field(string, default="")
    http_headers: list[V1HTTPHeader] = field(list_of(record(V1HTTPHeader)), default=list)


class V1TCPSocketAction(Record):
    """A connection to the pod, or to `host`."""

    port: int | str = field(_port)
    host: str = field(string, default="")


class V1SleepAction(Record):
    """A wait of this many seconds."""

    seconds: int = field(integer)


class V1Handler(Record):
    """The action of a hook or probe: exactly one is set."""

    exec: V1ExecAction | None = field(optional(record(V1ExecAction)), default=None)
    http_get: V1HTTPGetAction | None = field(optional(record(V1HTTPGetAction)), default=None)
    tcp_socket: V1TCPSocketAction | None = field(optional(record(V1TCPSocketAction)), default=None)
    sleep: V1SleepAction | None = field(optional(record(V1SleepAction)), default=None)


class V1Probe(V1Handler):
    """A probe; times in seconds. None is "not said", for which `defaults` has values."""

    initial_delay_seconds: int = field(integer, default=0)
    timeout_seconds: int | None = field(optional(integer), default=None)
    period_seconds: int | None = field(optional(integer), default=None)
    success_threshold: int | None = field(optional(integer), default=None)
    failure_threshold: int | None = field(optional(integer), default=None)
    termination_grace_period_seconds: int | None = field(optional(integer), default=None)


class V1Lifecycle(Record):
    """The hooks after a container's start and before its end."""

    post_start: V1Handler | None = field(optional(record(V1Handler)), default=None)
    pre_stop: V1Handler | None = field(optional(record(V1Handler)), default=None)


class V1ContainerPort(Record):
    """A port that a container listens at; `host_port` 0 is none."""

    name: str = field(string, default="")
    container_port: int = field(integer)
    host_port: int = field(integer, default=0)
    host_ip: str = field(string, "hostIP", default="")
    protocol: str = field(string, default="")


class V1EnvVar(Record):
    """An environment variable; `value` may have references `$(NAME)` to earlier ones."""

    name: str = field(string)
    value: str = field(string, default="")


class V1VolumeMount(Record):
    """A volume in a container's file system."""

    name: str = field(string)
    mount_path: str = field(string, default="")
    sub_path: str = field(string, default="")
    read_only: bool = field(boolean, default=False)


class V1Resources(Record):
    """Quantities by resource, of which `cpu` and `memory` have an effect."""

    limits: dict[str, str] = field(dict_of(_quantity), default=dict)
    requests: dict[str, str] = field(dict_of(_quantity), default=dict)


class V1Capabilities(Record):
    """Capabilities without the prefix CAP_; ALL stands for every one."""

    add: list[str] = field(_strings, default=list)
    drop: list[str] = field(_strings, default=list)


class V1SecurityContext(Record):
    """The rights of a container, or of all containers of a pod."""

    privileged: bool = field(boolean, default=False)
    run_as_user: int | None = field(optional(integer), default=None)
    run_as_group: int | None = field(optional(integer), default=None)
    supplemental_groups: list[int] = field(list_of(integer), default=list)
    run_as_non_root: bool | None = field(optional(boolean), default=None)
    read_only_root_filesystem: bool = field(boolean, default=False)
    allow_privilege_escalation: bool | None = field(optional(boolean), default=None)
    capabilities: V1Capabilities = field(record(V1Capabilities), default=V1Capabilities)


class V1Container(Record):
    """A container of a pod; `restart_policy` Always makes an init container a sidecar.

    `image` may be empty, which is this project's own: the command then runs on the node's file system.
    """

    name: str = field(string, default="")
    image: str = field(string, default="")
    image_pull_policy: str = field(string, default="")
    command: list[str] = field(_strings, default=list)
    args: list[str] = field(_strings, default=list)
    working_dir: str = field(string, default="")
    env: list[V1EnvVar] = field(list_of(record(V1EnvVar)), default=list)
    ports: list[V1ContainerPort] = field(list_of(record(V1ContainerPort)), default=list)
    volume_mounts: list[V1VolumeMount] = field(list_of(record(V1VolumeMount)), default=list)
    resources: V1Resources = field(record(V1Resources), default=V1Resources)
    lifecycle: V1Lifecycle = field(record(V1Lifecycle), default=V1Lifecycle)
    startup_probe: V1Probe | None = field(optional(record(V1Probe)), default=None)
    liveness_probe: V1Probe | None = field(optional(record(V1Probe)), default=None)
    readiness_probe: V1Probe | None = field(optional(record(V1Probe)), default=None)
    security_context: V1SecurityContext = field(record(V1SecurityContext), default=V1SecurityContext)
    restart_policy: str = field(string, default="")
    stdin: bool = field(boolean, default=False)
    stdin_once: bool = field(boolean, default=False)
    tty: bool = field(boolean, default=False)
    termination_message_path: str = field(string, default="")
    termination_message_policy: str = field(string, default="")


class V1EmptyDirVolume(Record):
    """An empty folder that lives as long as the pod; `medium` Memory makes it a tmpfs."""

    medium: str = field(string, default="")
    size_limit: str = field(_quantity, default="")


class V1HostPathVolume(Record):
    """A file or folder of the node; `type` is empty or one of hostPath.type, such as Directory."""

    path: str = field(string, default="")
    type: str = field(string, default="")


class V1KeyToPath(Record):
    """A key of a config map and the file that it becomes; `mode` is a number, 0o644 is 420."""

    key: str = field(string)
    path: str = field(string)
    mode: int | None = field(optional(integer), default=None)


class V1ConfigMapVolume(Record):
    """A config map as a folder of files; manifests beside the pod's hold config maps."""

    name: str = field(string, default="")
    items: list[V1KeyToPath] = field(list_of(record(V1KeyToPath)), default=list)
    default_mode: int | None = field(optional(integer), default=None)
    optional: bool = field(boolean, default=False)


class V1Volume(Record):
    """A volume: exactly one source is set."""

    name: str = field(string, default="")
    empty_dir: V1EmptyDirVolume | None = field(optional(record(V1EmptyDirVolume)), default=None)
    host_path: V1HostPathVolume | None = field(optional(record(V1HostPathVolume)), default=None)
    config_map: V1ConfigMapVolume | None = field(optional(record(V1ConfigMapVolume)), default=None)


class V1DNSOption(Record):
    """An option of resolv.conf."""

    name: str = field(string)
    value: str | None = field(optional(string), default=None)


class V1PodDNSConfig(Record):
    """Resolver settings beside those of the DNS policy."""

    nameservers: list[str] = field(_strings, default=list)
    searches: list[str] = field(_strings, default=list)
    options: list[V1DNSOption] = field(list_of(record(V1DNSOption)), default=list)


class V1HostAlias(Record):
    """A line of the pod's hosts file."""

    ip: str = field(string)
    hostnames: list[str] = field(_strings, default=list)


class V1Sysctl(Record):
    """A kernel parameter of the pod."""

    name: str = field(string)
    value: str = field(string)


class V1PodSecurityContext(V1SecurityContext):
    """The rights of all containers of a pod, and its kernel parameters."""

    sysctls: list[V1Sysctl] = field(list_of(record(V1Sysctl)), default=list)


class V1PodSpec(Record):
    """The wanted state of a pod."""

    containers: list[V1Container] = field(list_of(record(V1Container)), default=list)
    init_containers: list[V1Container] = field(list_of(record(V1Container)), default=list)
    ephemeral_containers: list[V1Container] = field(list_of(record(V1Container)), default=list)
    volumes: list[V1Volume] = field(list_of(record(V1Volume)), default=list)
    restart_policy: str = field(string, default="")
    termination_grace_period_seconds: int | None = field(optional(integer), default=None)
    active_deadline_seconds: int | None = field(optional(integer), default=None)
    dns_policy: str = field(string, default="")
    dns_config: V1PodDNSConfig | None = field(optional(record(V1PodDNSConfig)), default=None)
    node_name: str = field(string, default="")
    node_selector: dict[str, str] = field(_by_name, default=dict)
    host_network: bool = field(boolean, default=False)
    host_pid: bool = field(boolean, "hostPID", default=False)
    host_ipc: bool = field(boolean, "hostIPC", default=False)
    share_process_namespace: bool = field(boolean, default=False)
    hostname: str = field(string, default="")
    subdomain: str = field(string, default="")
    host_aliases: list[V1HostAlias] = field(list_of(record(V1HostAlias)), default=list)
    set_hostname_as_fqdn: bool = field(boolean, "setHostnameAsFQDN", default=False)
    security_context: V1PodSecurityContext = field(record(V1PodSecurityContext), default=V1PodSecurityContext)


class V1Metadata(Record):
    """The identity of an object; `deletion_timestamp` is RFC 3339 in UTC, empty while the object is wanted."""

    name: str = field(string, default="")
    namespace: str = field(string, default="")
    uid: str = field(string, default="")
    labels: dict[str, str] = field(_by_name, default=dict)
    annotations: dict[str, str] = field(_by_name, default=dict)
    creation_timestamp: str = field(string, default="")
    deletion_timestamp: str = field(string, default="")
    deletion_grace_period_seconds: int | None = field(optional(integer), default=None)


class V1Pod(Record):
    """A pod as a manifest describes it."""

    api_version: str = field(string, default="")
    kind: str = field(string, default="")
    metadata: V1Metadata = field(record(V1Metadata), default=V1Metadata)
    spec: V1PodSpec = field(record(V1PodSpec), default=V1PodSpec)
