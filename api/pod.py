"""The objects of a Pod manifest (Kubernetes API v1), as far as a node without API server uses them.

Names, keys and defaults are those of https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/;
`api.defaults` completes a pod, `api.validation` holds it to the API server's rules. Quantities are text as in the
manifest (`100m`, `64Mi`). Containers have a module of their own.
"""

import base64
from collections.abc import Iterator
from typing import ClassVar, Final

from api.container import V1Container, V1UserContext
from api.errors import FieldError, forbidden
from api.names import (
    Between,
    group_id_flaws,
    ip_flaws,
    label_flaws,
    local_path_flaws,
    mode_flaws,
    qualified_name_flaws,
    subdomain_flaws,
    uid_flaws,
    without_backsteps_flaws,
    word_flaws,
)
from api.object import V1Object, field
from api.quantity import parse_quantity
from api.values import Base64, Int32, Int64, QuantityText

_HOST_PATH_TYPES: Final = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)

_LACKING: Final = "this node has volumes of the types emptyDir, hostPath and configMap"

_OF_API_SERVER: Final = {
    "azureFile": "static pods may not reference secrets (via azureFile volumes)",
    "csi": "static pods may not reference csidrivers (via CSI volumes)",
    "ephemeral": "static pods may not reference persistentvolumeclaims (via ephemeral volumes)",
    "glusterfs": "static pods may not reference endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "static pods may not reference persistentvolumeclaims",
    "secret": "static pods may not reference secrets (via secret volumes)",
}
"""Kubernetes' own words (its HasAPIObjectReference)."""


class V1EmptyDirVolume(V1Object):
    """An empty folder that exists as long as the pod; `medium` Memory makes it a tmpfs."""

    medium: str = ""
    size_limit: QuantityText = ""

    def flaws(self, path: str, *_: str) -> Iterator[FieldError]:
        """Judge the size, which the API server forbids to be negative."""
        if self.size_limit and parse_quantity(self.size_limit).nano < 0:
            yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


class V1HostPathVolume(V1Object):
    """A file or folder of the node."""

    path: str = field(default="", required=True, rule=without_backsteps_flaws)
    type: str = field(default="", one_of=_HOST_PATH_TYPES)

    def flaws(self, path: str, *_: str) -> Iterator[FieldError]:
        """Judge the path; a type without one is not judged."""
        return super().flaws(path, *(("path", "type") if self.path else ("path",)))


class V1KeyToPath(V1Object):
    """A key of a config map and the file that it becomes; `mode` is a number, 0o644 is 420."""

    key: str = field(default="", required=True)
    path: str = field(default="", required=True, rule=local_path_flaws)
    mode: Int32 | None = field(default=None, rule=mode_flaws)


class V1ConfigMapVolume(V1Object):
    """A config map as a folder of files; manifests beside the pod's hold config maps."""

    name: str = field(default="", required=True)
    items: list[V1KeyToPath] = []
    default_mode: Int32 | None = field(default=None, fill=0o644, rule=mode_flaws)
    optional: bool = False

    def flaws(self, path: str, *_: str) -> Iterator[FieldError]:
        """Judge the fields, the items last."""
        yield from super().flaws(path, "name", "default_mode")
        for index, item in enumerate(self.items):
            yield from item.flaws(f"{path}.items[{index}]")


class V1Volume(V1Object):
    """A volume and its source."""

    _union: ClassVar[tuple[str, ...]] = ("volume type", "empty_dir", "host_path", "config_map")
    _refused: ClassVar[dict[str, str]] = {
        **dict.fromkeys(
            [
                *("awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "downwardAPI", "fc", "flexVolume"),
                *("flocker", "gcePersistentDisk", "gitRepo", "image", "iscsi", "nfs", "photonPersistentDisk"),
                *("portworxVolume", "projected", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
            ],
            _LACKING,
        ),
        **_OF_API_SERVER,
    }

    name: str = field(default="", required=True, rule=label_flaws)
    empty_dir: V1EmptyDirVolume | None = None
    host_path: V1HostPathVolume | None = None
    config_map: V1ConfigMapVolume | None = None


class V1DNSOption(V1Object):
    """An option of resolv.conf."""

    name: str = field(default="", rule=word_flaws)
    value: str | None = field(default=None, rule=word_flaws)


class V1PodDNSConfig(V1Object):
    """Resolver settings beside those of the DNS policy."""

    nameservers: list[str] = field(default=[], rule=ip_flaws)
    searches: list[str] = []
    options: list[V1DNSOption] = []


class V1HostAlias(V1Object):
    """A line of the pod's hosts file."""

    ip: str = field(default="", rule=ip_flaws, rules_empty=True)
    hostnames: list[str] = field(default=[], rule=subdomain_flaws)


class V1Sysctl(V1Object):
    """A kernel parameter of the pod."""

    name: str = ""
    value: str = ""


class V1PodSecurityContext(V1UserContext):
    """The rights of all containers of a pod, and its kernel parameters."""

    _ignored: ClassVar[frozenset[str]] = V1UserContext._ignored - {"procMount"} | {  # noqa: SLF001 -- its subclass
        "fsGroupChangePolicy",
        "seLinuxChangePolicy",
        "supplementalGroupsPolicy",
    }

    supplemental_groups: list[Int64] = field(default=[], rule=group_id_flaws)
    fs_group: Int64 | None = field(default=None, rule=group_id_flaws)
    sysctls: list[V1Sysctl] = []


class V1Toleration(V1Object):
    """A taint that the pod tolerates; `operator` is Equal, which empty means too, or Exists."""

    key: str = field(default="", rule=qualified_name_flaws)
    operator: str = ""
    value: str = ""
    effect: str = field(default="", one_of=("NoSchedule", "PreferNoSchedule", "NoExecute"))
    toleration_seconds: Int64 | None = None


class V1PodOS(V1Object):
    """The operating system of a pod's images: linux, or empty."""

    name: str = field(default="", one_of=("linux",))


class V1PodSpec(V1Object):
    """The wanted state of a pod.

    A manifest that was written for an API server may have the keys of `_ignored`: the scheduler, the service account
    controller and image pulls have no part on this node.
    """

    _ignored: ClassVar[frozenset[str]] = frozenset(
        (
            *("affinity", "automountServiceAccountToken", "imagePullSecrets", "overhead", "preemptionPolicy"),
            *("readinessGates", "serviceAccount", "schedulingGroup", "topologySpreadConstraints", "workloadRef"),
        )
    )
    _refused: ClassVar[dict[str, str]] = {
        "hostnameOverride": "this node names a pod by its hostname",
        "resourceClaims": "static pods may not reference resourceclaims",
        "resources": "this node limits containers, not pods",
        "runtimeClassName": "static pods may not reference runtimeclasses",
        "schedulingGates": "cannot be set for a pod with a node",
    }

    containers: list[V1Container] = []
    init_containers: list[V1Container] = []
    ephemeral_containers: list[V1Container] = []
    volumes: list[V1Volume] = []
    restart_policy: str = field(default="", fill="Always", required=True, one_of=("Always", "OnFailure", "Never"))
    termination_grace_period_seconds: Int64 | None = field(default=None, fill=30, required=True)
    active_deadline_seconds: Int64 | None = field(default=None, rule=Between(1, 2**31 - 1))
    dns_policy: str = field(
        default="",
        fill="ClusterFirst",
        required=True,
        one_of=("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    )
    dns_config: V1PodDNSConfig | None = None
    node_name: str = field(default="", rule=subdomain_flaws)
    node_selector: dict[str, str] = {}
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_process_namespace: bool = False
    hostname: str = field(default="", rule=label_flaws)
    subdomain: str = field(default="", rule=label_flaws)
    host_aliases: list[V1HostAlias] = []
    set_hostname_as_fqdn: bool = False
    security_context: V1PodSecurityContext = V1PodSecurityContext()
    tolerations: list[V1Toleration] = []
    service_account_name: str = field(default="", rule=subdomain_flaws)
    scheduler_name: str = field(default="", fill="default-scheduler")
    priority: Int32 | None = None
    priority_class_name: str = field(default="", rule=subdomain_flaws)
    enable_service_links: bool | None = field(default=None, fill=True)
    host_users: bool | None = None
    os: V1PodOS = V1PodOS()

    def all_containers(self) -> list[V1Container]:
        """Return the containers of each kind, the regular ones first."""
        return [*self.containers, *self.init_containers, *self.ephemeral_containers]

    def sidecars(self) -> list[V1Container]:
        """Return the init containers that run as long as the pod."""
        return [each for each in self.init_containers if each.is_sidecar]

    def container(self, name: str) -> V1Container | None:
        """Return the container of this name."""
        return next((each for each in self.all_containers() if each.name == name), None)

    def field_path(self, container: V1Container) -> str:
        """Return the path of a container in its pod, as events have it."""
        kinds = {"spec.initContainers": self.init_containers, "spec.ephemeralContainers": self.ephemeral_containers}
        kind = next((path for path, listed in kinds.items() if container in listed), "spec.containers")
        return f"{kind}{{{container.name}}}"


class V1Metadata(V1Object):
    """The identity of an object; `deletion_timestamp` is RFC 3339 in UTC, empty while the object is wanted."""

    _ignored: ClassVar[frozenset[str]] = frozenset(
        ("finalizers", "generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink")
    )

    name: str = field(default="", required="name or generateName is required", rule=subdomain_flaws)
    generate_name: str = ""
    namespace: str = field(default="", required=True, rule=label_flaws)
    uid: str = field(default="", rule=uid_flaws)
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: Int64 | None = None


class V1Pod(V1Object):
    """A pod as a manifest describes it."""

    _ignored: ClassVar[frozenset[str]] = frozenset(("status",))

    api_version: str = ""
    kind: str = ""
    metadata: V1Metadata = V1Metadata()
    spec: V1PodSpec = V1PodSpec()

    def __str__(self) -> str:
        """Return `NAME_NAMESPACE(UID)`, as messages have it (kubelet's util/format.Pod)."""
        return f"{self.metadata.name}_{self.metadata.namespace}({self.metadata.uid})"


class V1ConfigMap(V1Object):
    """A config map as a manifest describes it: texts in `data`, bytes in `binary_data`."""

    api_version: str = ""
    kind: str = ""
    metadata: V1Metadata = V1Metadata()
    data: dict[str, str] = {}
    binary_data: dict[str, Base64] = {}
    immutable: bool = False

    def files(self) -> dict[str, bytes]:
        """Return the content by key: what a volume of this config map has as files."""
        texts = {key: text.encode() for key, text in self.data.items()}
        return texts | {key: base64.b64decode(text) for key, text in self.binary_data.items()}
