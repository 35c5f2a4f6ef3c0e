"""The containers of a Pod manifest (Kubernetes API v1): commands, ports, environment, hooks, probes and rights."""

from collections.abc import Iterator
from typing import ClassVar, Final

from api.errors import FieldError, flaws_at
from api.names import (
    Between,
    config_map_key_flaws,
    env_name_flaws,
    group_id_flaws,
    header_flaws,
    image_flaws,
    ip_flaws,
    label_flaws,
    port_flaws,
    port_name_flaws,
    port_number_flaws,
    positive_flaws,
    relative_path_flaws,
    subdomain_flaws,
)
from api.object import V1Object, field
from api.values import Int32, Int64, Port, QuantityText

_PROBES: Final = "this node has probes of the types exec, httpGet and tcpSocket"
_NOT_NEGATIVE: Final = Between(0)
_NO_SECRETS: Final = "static pods may not reference secrets"


class V1ExecAction(V1Object):
    """A command to run in the container; no shell is around it."""

    command: list[str] = field(default=[], required=True)


class V1HTTPHeader(V1Object):
    """A header of a request."""

    name: str = ""
    value: str = ""


class V1HTTPGetAction(V1Object):
    """A request to the pod, or to `host`; `scheme` is HTTP or HTTPS."""

    path: str = field(default="", fill="/", required=True)
    port: Port = field(default=0, rule=port_flaws, rules_empty=True)
    host: str = ""
    scheme: str = field(default="", fill="HTTP", one_of=("HTTP", "HTTPS"))
    http_headers: list[V1HTTPHeader] = []

    def flaws(self, path: str, *names: str) -> Iterator[FieldError]:
        """Judge the fields, and the names of headers, whose errors name no index."""
        yield from super().flaws(path, *names)
        for header in self.http_headers:
            yield from flaws_at(f"{path}.httpHeaders", header.name, header_flaws)


class V1TCPSocketAction(V1Object):
    """A connection to the pod, or to `host`."""

    port: Port = field(default=0, rule=port_flaws, rules_empty=True)
    host: str = ""


class V1SleepAction(V1Object):
    """A wait of this many seconds."""

    seconds: Int64 = 0


class V1Handler(V1Object):
    """The action of a hook or probe."""

    _union: ClassVar[tuple[str, ...]] = ("handler type", "exec", "http_get", "tcp_socket", "sleep")

    exec: V1ExecAction | None = None
    http_get: V1HTTPGetAction | None = None
    tcp_socket: V1TCPSocketAction | None = None
    sleep: V1SleepAction | None = None


class V1Probe(V1Handler):
    """A probe; times in seconds."""

    _refused: ClassVar[dict[str, str]] = {"grpc": _PROBES, "sleep": _PROBES}

    initial_delay_seconds: Int32 = field(default=0, rule=_NOT_NEGATIVE)
    timeout_seconds: Int32 = field(default=0, fill=1, rule=_NOT_NEGATIVE)
    period_seconds: Int32 = field(default=0, fill=10, rule=_NOT_NEGATIVE)
    success_threshold: Int32 = field(default=0, fill=1, rule=_NOT_NEGATIVE)
    failure_threshold: Int32 = field(default=0, fill=3, rule=_NOT_NEGATIVE)
    termination_grace_period_seconds: Int64 | None = field(default=None, rule=positive_flaws)


class V1Lifecycle(V1Object):
    """The hooks after a container's start and before its end."""

    _refused: ClassVar[dict[str, str]] = {"stopSignal": "this node stops containers with their image's signal"}

    post_start: V1Handler | None = None
    pre_stop: V1Handler | None = None


class V1ContainerPort(V1Object):
    """A port that a container listens at; `host_port` 0 is none."""

    name: str = field(default="", rule=port_name_flaws)
    container_port: Int32 = field(default=0, required=True, rule=port_number_flaws)
    host_port: Int32 = field(default=0, rule=port_number_flaws)
    host_ip: str = field(default="", rule=ip_flaws)
    protocol: str = field(default="", fill="TCP", required=True, one_of=("SCTP", "TCP", "UDP"))


class V1FieldRef(V1Object):
    """A field of the pod, such as `status.podIP`."""

    api_version: str = field(default="", fill="v1", required=True)
    field_path: str = ""


class V1ResourceFieldRef(V1Object):
    """A limit or request of a container, such as `limits.cpu`, divided by `divisor`."""

    container_name: str = ""
    resource: str = ""
    divisor: QuantityText = ""


class V1KeyRef(V1Object):
    """A key of a config map."""

    name: str = field(default="", rule=subdomain_flaws, rules_empty=True)
    key: str = field(default="", required=True, rule=config_map_key_flaws)
    optional: bool = False


class V1EnvVarSource(V1Object):
    """Where the value of an environment variable comes from."""

    _union: ClassVar[tuple[str, ...]] = ("source", "field_ref", "resource_field_ref", "config_map_key_ref")
    _refused: ClassVar[dict[str, str]] = {
        "fileKeyRef": "this node takes values from fieldRef, resourceFieldRef and configMapKeyRef",
        "secretKeyRef": _NO_SECRETS,
    }

    field_ref: V1FieldRef | None = None
    resource_field_ref: V1ResourceFieldRef | None = None
    config_map_key_ref: V1KeyRef | None = None


class V1EnvVar(V1Object):
    """An environment variable; `value` may have references `$(NAME)` to earlier ones."""

    name: str = field(default="", required=True, rule=env_name_flaws)
    value: str = ""
    value_from: V1EnvVarSource | None = None


class V1ConfigMapRef(V1Object):
    """A whole config map."""

    name: str = field(default="", required=True, rule=subdomain_flaws)
    optional: bool = False


class V1EnvFromSource(V1Object):
    """A config map whose keys become environment variables, each with `prefix` before its name."""

    _refused: ClassVar[dict[str, str]] = {"secretRef": _NO_SECRETS}

    prefix: str = field(default="", rule=env_name_flaws)
    config_map_ref: V1ConfigMapRef | None = None


class V1VolumeMount(V1Object):
    """A volume in a container's file system; `mount_propagation` is None, HostToContainer or Bidirectional."""

    name: str = field(default="", required=True)
    mount_path: str = field(default="", required=True)
    sub_path: str = field(default="", rule=relative_path_flaws)
    sub_path_expr: str = field(default="", rule=relative_path_flaws)
    read_only: bool = False
    mount_propagation: str = field(default="", one_of=("Bidirectional", "HostToContainer", "None"))
    recursive_read_only: str = field(default="", one_of=("Disabled", "Enabled", "IfPossible"))


class V1Resources(V1Object):
    """Quantities by resource, of which `cpu` and `memory` have an effect."""

    _refused: ClassVar[dict[str, str]] = {"claims": "static pods may not reference resourceclaims"}

    limits: dict[str, QuantityText] = {}
    requests: dict[str, QuantityText] = {}


class V1Capabilities(V1Object):
    """Capabilities without the prefix CAP_; ALL stands for every one."""

    add: list[str] = []
    drop: list[str] = []


class V1SecurityProfile(V1Object):
    """A profile of seccomp or AppArmor: `type` is RuntimeDefault, Unconfined or Localhost."""

    type: str = ""
    localhost_profile: str | None = None


class V1UserContext(V1Object):
    """The part of a security context that pods and containers share."""

    _ignored: ClassVar[frozenset[str]] = frozenset(("procMount", "seLinuxOptions", "windowsOptions"))

    run_as_user: Int64 | None = field(default=None, rule=group_id_flaws)
    run_as_group: Int64 | None = field(default=None, rule=group_id_flaws)
    run_as_non_root: bool | None = None
    seccomp_profile: V1SecurityProfile | None = None
    app_armor_profile: V1SecurityProfile | None = None


class V1SecurityContext(V1UserContext):
    """The rights of a container; what it leaves open is the pod's."""

    privileged: bool = False
    read_only_root_filesystem: bool = False
    allow_privilege_escalation: bool | None = None
    capabilities: V1Capabilities = V1Capabilities()


class V1Container(V1Object):
    """A container of a pod; `restart_policy` Always makes an init container a sidecar.

    `image` may be empty, which is this project's own: the command then runs on the node's file system.
    """

    _ignored: ClassVar[frozenset[str]] = frozenset(("resizePolicy",))
    _refused: ClassVar[dict[str, str]] = {
        "restartPolicyRules": "this node restarts a container by its restartPolicy alone",
        "volumeDevices": "static pods may not reference persistentvolumeclaims",
    }

    name: str = field(default="", required=True, rule=label_flaws)
    image: str = field(default="", rule=image_flaws)
    image_pull_policy: str = field(default="", required=True, one_of=("Always", "IfNotPresent", "Never"))
    command: list[str] = []
    args: list[str] = []
    working_dir: str = ""
    env: list[V1EnvVar] = []
    env_from: list[V1EnvFromSource] = []
    ports: list[V1ContainerPort] = []
    volume_mounts: list[V1VolumeMount] = []
    resources: V1Resources = V1Resources()
    lifecycle: V1Lifecycle = V1Lifecycle()
    startup_probe: V1Probe | None = None
    liveness_probe: V1Probe | None = None
    readiness_probe: V1Probe | None = None
    security_context: V1SecurityContext = V1SecurityContext()
    restart_policy: str = field(default="", one_of=("Always", "Never", "OnFailure"))
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    termination_message_path: str = field(default="", fill="/dev/termination-log")
    termination_message_policy: str = field(
        default="", fill="File", required=True, one_of=("File", "FallbackToLogsOnError")
    )

    @property
    def is_sidecar(self) -> bool:
        """Whether an init container is a sidecar, which runs as long as the pod (IsRestartableInitContainer)."""
        return self.restart_policy == "Always"
