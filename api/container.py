"""The containers of a Pod manifest (Kubernetes API v1): commands, ports, environment, hooks, probes and rights."""

from typing import ClassVar, Final

from api.object import V1Object, int32, int64, port, quantity, strings
from skel.decoders import boolean, dict_of, list_of, record, string
from skel.record import field

_PROBES: Final = "this node has probes of the types exec, httpGet and tcpSocket"
_NO_SECRETS: Final = "static pods may not reference secrets"


class V1ExecAction(V1Object):
    """A command to run in the container; no shell is around it."""

    command: list[str] = field(strings, default=list)


class V1HTTPHeader(V1Object):
    """A header of a request."""

    name: str = field(string, default="")
    value: str = field(string, default="")


class V1HTTPGetAction(V1Object):
    """A request to the pod, or to `host`; `scheme` is HTTP or HTTPS."""

    path: str = field(string, default="")
    port: int | str = field(port, default=0)
    host: str = field(string, default="")
    scheme: str = field(string, default="")
    http_headers: list[V1HTTPHeader] = field(list_of(record(V1HTTPHeader)), default=list)


class V1TCPSocketAction(V1Object):
    """A connection to the pod, or to `host`."""

    port: int | str = field(port, default=0)
    host: str = field(string, default="")


class V1SleepAction(V1Object):
    """A wait of this many seconds."""

    seconds: int = field(int64, default=0)


class V1Handler(V1Object):
    """The action of a hook or probe: exactly one is set."""

    exec: V1ExecAction | None = field(record(V1ExecAction), default=None)
    http_get: V1HTTPGetAction | None = field(record(V1HTTPGetAction), default=None)
    tcp_socket: V1TCPSocketAction | None = field(record(V1TCPSocketAction), default=None)
    sleep: V1SleepAction | None = field(record(V1SleepAction), default=None)


class V1Probe(V1Handler):
    """A probe; times in seconds. None is "not said", for which `defaults` has values."""

    _refused: ClassVar[dict[str, str]] = {"grpc": _PROBES, "sleep": _PROBES}

    initial_delay_seconds: int = field(int32, default=0)
    timeout_seconds: int | None = field(int32, default=None)
    period_seconds: int | None = field(int32, default=None)
    success_threshold: int | None = field(int32, default=None)
    failure_threshold: int | None = field(int32, default=None)
    termination_grace_period_seconds: int | None = field(int64, default=None)


class V1Lifecycle(V1Object):
    """The hooks after a container's start and before its end."""

    _refused: ClassVar[dict[str, str]] = {"stopSignal": "this node stops containers with their image's signal"}

    post_start: V1Handler | None = field(record(V1Handler), default=None)
    pre_stop: V1Handler | None = field(record(V1Handler), default=None)


class V1ContainerPort(V1Object):
    """A port that a container listens at; `host_port` 0 is none."""

    name: str = field(string, default="")
    container_port: int = field(int32, default=0)
    host_port: int = field(int32, default=0)
    host_ip: str = field(string, "hostIP", default="")
    protocol: str = field(string, default="")


class V1FieldRef(V1Object):
    """A field of the pod, such as `status.podIP`."""

    api_version: str = field(string, default="")
    field_path: str = field(string, default="")


class V1ResourceFieldRef(V1Object):
    """A limit or request of a container, such as `limits.cpu`, divided by `divisor`."""

    container_name: str = field(string, default="")
    resource: str = field(string, default="")
    divisor: str = field(quantity, default="")


class V1KeyRef(V1Object):
    """A key of a config map."""

    name: str = field(string, default="")
    key: str = field(string, default="")
    optional: bool = field(boolean, default=False)


class V1EnvVarSource(V1Object):
    """Where the value of an environment variable comes from: exactly one is set."""

    _refused: ClassVar[dict[str, str]] = {
        "fileKeyRef": "this node takes values from fieldRef, resourceFieldRef and configMapKeyRef",
        "secretKeyRef": _NO_SECRETS,
    }

    field_ref: V1FieldRef | None = field(record(V1FieldRef), default=None)
    resource_field_ref: V1ResourceFieldRef | None = field(record(V1ResourceFieldRef), default=None)
    config_map_key_ref: V1KeyRef | None = field(record(V1KeyRef), default=None)


class V1EnvVar(V1Object):
    """An environment variable; `value` may have references `$(NAME)` to earlier ones."""

    name: str = field(string, default="")
    value: str = field(string, default="")
    value_from: V1EnvVarSource | None = field(record(V1EnvVarSource), default=None)


class V1ConfigMapRef(V1Object):
    """A whole config map."""

    name: str = field(string, default="")
    optional: bool = field(boolean, default=False)


class V1EnvFromSource(V1Object):
    """A config map whose keys become environment variables, each with `prefix` before its name."""

    _refused: ClassVar[dict[str, str]] = {"secretRef": _NO_SECRETS}

    prefix: str = field(string, default="")
    config_map_ref: V1ConfigMapRef | None = field(record(V1ConfigMapRef), default=None)


class V1VolumeMount(V1Object):
    """A volume in a container's file system; `mount_propagation` is None, HostToContainer or Bidirectional."""

    name: str = field(string, default="")
    mount_path: str = field(string, default="")
    sub_path: str = field(string, default="")
    sub_path_expr: str = field(string, default="")
    read_only: bool = field(boolean, default=False)
    mount_propagation: str = field(string, default="")
    recursive_read_only: str = field(string, default="")


class V1Resources(V1Object):
    """Quantities by resource, of which `cpu` and `memory` have an effect."""

    _refused: ClassVar[dict[str, str]] = {"claims": "static pods may not reference resourceclaims"}

    limits: dict[str, str] = field(dict_of(quantity), default=dict)
    requests: dict[str, str] = field(dict_of(quantity), default=dict)


class V1Capabilities(V1Object):
    """Capabilities without the prefix CAP_; ALL stands for every one."""

    add: list[str] = field(strings, default=list)
    drop: list[str] = field(strings, default=list)


class V1SecurityProfile(V1Object):
    """A profile of seccomp or AppArmor: `type` is RuntimeDefault, Unconfined or Localhost."""

    type: str = field(string, default="")
    localhost_profile: str | None = field(string, default=None)


class V1UserContext(V1Object):
    """The part of a security context that pods and containers share."""

    _ignored: ClassVar[frozenset[str]] = frozenset(("procMount", "seLinuxOptions", "windowsOptions"))

    run_as_user: int | None = field(int64, default=None)
    run_as_group: int | None = field(int64, default=None)
    run_as_non_root: bool | None = field(boolean, default=None)
    seccomp_profile: V1SecurityProfile | None = field(record(V1SecurityProfile), default=None)
    app_armor_profile: V1SecurityProfile | None = field(record(V1SecurityProfile), default=None)


class V1SecurityContext(V1UserContext):
    """The rights of a container; what it leaves open is the pod's."""

    privileged: bool = field(boolean, default=False)
    read_only_root_filesystem: bool = field(boolean, default=False)
    allow_privilege_escalation: bool | None = field(boolean, default=None)
    capabilities: V1Capabilities = field(record(V1Capabilities), default=V1Capabilities)


class V1Container(V1Object):
    """A container of a pod; `restart_policy` Always makes an init container a sidecar.

    `image` may be empty, which is this project's own: the command then runs on the node's file system.
    """

    _ignored: ClassVar[frozenset[str]] = frozenset(("resizePolicy",))
    _refused: ClassVar[dict[str, str]] = {
        "restartPolicyRules": "this node restarts a container by its restartPolicy alone",
        "volumeDevices": "static pods may not reference persistentvolumeclaims",
    }

    name: str = field(string, default="")
    image: str = field(string, default="")
    image_pull_policy: str = field(string, default="")
    command: list[str] = field(strings, default=list)
    args: list[str] = field(strings, default=list)
    working_dir: str = field(string, default="")
    env: list[V1EnvVar] = field(list_of(record(V1EnvVar)), default=list)
    env_from: list[V1EnvFromSource] = field(list_of(record(V1EnvFromSource)), default=list)
    ports: list[V1ContainerPort] = field(list_of(record(V1ContainerPort)), default=list)
    volume_mounts: list[V1VolumeMount] = field(list_of(record(V1VolumeMount)), default=list)
    resources: V1Resources = field(record(V1Resources), default=V1Resources)
    lifecycle: V1Lifecycle = field(record(V1Lifecycle), default=V1Lifecycle)
    startup_probe: V1Probe | None = field(record(V1Probe), default=None)
    liveness_probe: V1Probe | None = field(record(V1Probe), default=None)
    readiness_probe: V1Probe | None = field(record(V1Probe), default=None)
    security_context: V1SecurityContext = field(record(V1SecurityContext), default=V1SecurityContext)
    restart_policy: str = field(string, default="")
    stdin: bool = field(boolean, default=False)
    stdin_once: bool = field(boolean, default=False)
    tty: bool = field(boolean, default=False)
    termination_message_path: str = field(string, default="")
    termination_message_policy: str = field(string, default="")
