"""The objects of a Pod manifest (Kubernetes API v1), as far as a node without API server uses them.

Names, keys and defaults are those of https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/;
`defaults` fills in what a manifest leaves out, `pod_validation` holds a pod to the API server's rules. Quantities are
text as in the manifest (`100m`, `64Mi`). Containers have a module of their own.
"""

import base64
from typing import ClassVar, Final

from api.container import (
    V1Container,
    V1UserContext,
)
from api.object import V1Object, int32, int64, quantity, string_map, strings
from skel.decoders import boolean, dict_of, list_of, record, string
from skel.record import expected, field

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

_NO_CLAIMS: Final = "static pods may not reference resourceclaims"


class V1EmptyDirVolume(V1Object):
    """An empty folder that exists as long as the pod; `medium` Memory makes it a tmpfs."""

    medium: str = field(string, default="")
    size_limit: str = field(quantity, default="")


class V1HostPathVolume(V1Object):
    """A file or folder of the node.

    `type` is empty, BlockDevice, CharDevice, Directory, DirectoryOrCreate, File, FileOrCreate or Socket.
    """

    path: str = field(string, default="")
    type: str = field(string, default="")


class V1KeyToPath(V1Object):
    """A key of a config map and the file that it becomes; `mode` is a number, 0o644 is 420."""

    key: str = field(string, default="")
    path: str = field(string, default="")
    mode: int | None = field(int32, default=None)


class V1ConfigMapVolume(V1Object):
    """A config map as a folder of files; manifests beside the pod's hold config maps."""

    name: str = field(string, default="")
    items: list[V1KeyToPath] = field(list_of(record(V1KeyToPath)), default=list)
    default_mode: int | None = field(int32, default=None)
    optional: bool = field(boolean, default=False)


class V1Volume(V1Object):
    """A volume: exactly one source is set."""

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

    name: str = field(string, default="")
    empty_dir: V1EmptyDirVolume | None = field(record(V1EmptyDirVolume), default=None)
    host_path: V1HostPathVolume | None = field(record(V1HostPathVolume), default=None)
    config_map: V1ConfigMapVolume | None = field(record(V1ConfigMapVolume), default=None)


class V1DNSOption(V1Object):
    """An option of resolv.conf."""

    name: str = field(string, default="")
    value: str | None = field(string, default=None)


class V1PodDNSConfig(V1Object):
    """Resolver settings beside those of the DNS policy."""

    nameservers: list[str] = field(strings, default=list)
    searches: list[str] = field(strings, default=list)
    options: list[V1DNSOption] = field(list_of(record(V1DNSOption)), default=list)


class V1HostAlias(V1Object):
    """A line of the pod's hosts file."""

    ip: str = field(string, default="")
    hostnames: list[str] = field(strings, default=list)


class V1Sysctl(V1Object):
    """A kernel parameter of the pod."""

    name: str = field(string, default="")
    value: str = field(string, default="")


class V1PodSecurityContext(V1UserContext):
    """The rights of all containers of a pod, and its kernel parameters."""

    _ignored: ClassVar[frozenset[str]] = V1UserContext._ignored - {"procMount"} | {  # noqa: SLF001 -- its subclass
        "fsGroupChangePolicy",
        "seLinuxChangePolicy",
        "supplementalGroupsPolicy",
    }

    supplemental_groups: list[int] = field(list_of(int64), default=list)
    fs_group: int | None = field(int64, default=None)
    sysctls: list[V1Sysctl] = field(list_of(record(V1Sysctl)), default=list)


class V1Toleration(V1Object):
    """A taint that the pod tolerates; `operator` is Equal, which empty means too, or Exists."""

    key: str = field(string, default="")
    operator: str = field(string, default="")
    value: str = field(string, default="")
    effect: str = field(string, default="")
    toleration_seconds: int | None = field(int64, default=None)


class V1PodOS(V1Object):
    """The operating system of a pod's images: linux, or empty."""

    name: str = field(string, default="")


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
        "resourceClaims": _NO_CLAIMS,
        "resources": "this node limits containers, not pods",
        "runtimeClassName": "static pods may not reference runtimeclasses",
        "schedulingGates": "cannot be set for a pod with a node",
    }

    containers: list[V1Container] = field(list_of(record(V1Container)), default=list)
    init_containers: list[V1Container] = field(list_of(record(V1Container)), default=list)
    ephemeral_containers: list[V1Container] = field(list_of(record(V1Container)), default=list)
    volumes: list[V1Volume] = field(list_of(record(V1Volume)), default=list)
    restart_policy: str = field(string, default="")
    termination_grace_period_seconds: int | None = field(int64, default=None)
    active_deadline_seconds: int | None = field(int64, default=None)
    dns_policy: str = field(string, default="")
    dns_config: V1PodDNSConfig | None = field(record(V1PodDNSConfig), default=None)
    node_name: str = field(string, default="")
    node_selector: dict[str, str] = field(string_map, default=dict)
    host_network: bool = field(boolean, default=False)
    host_pid: bool = field(boolean, "hostPID", default=False)
    host_ipc: bool = field(boolean, "hostIPC", default=False)
    share_process_namespace: bool = field(boolean, default=False)
    hostname: str = field(string, default="")
    subdomain: str = field(string, default="")
    host_aliases: list[V1HostAlias] = field(list_of(record(V1HostAlias)), default=list)
    set_hostname_as_fqdn: bool = field(boolean, "setHostnameAsFQDN", default=False)
    security_context: V1PodSecurityContext = field(record(V1PodSecurityContext), default=V1PodSecurityContext)
    tolerations: list[V1Toleration] = field(list_of(record(V1Toleration)), default=list)
    service_account_name: str = field(string, default="")
    scheduler_name: str = field(string, default="")
    priority: int | None = field(int32, default=None)
    priority_class_name: str = field(string, default="")
    enable_service_links: bool | None = field(boolean, default=None)
    host_users: bool | None = field(boolean, default=None)
    os: V1PodOS = field(record(V1PodOS), default=V1PodOS)


class V1Metadata(V1Object):
    """The identity of an object; `deletion_timestamp` is RFC 3339 in UTC, empty while the object is wanted."""

    _ignored: ClassVar[frozenset[str]] = frozenset(
        ("finalizers", "generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink")
    )

    name: str = field(string, default="")
    generate_name: str = field(string, default="")
    namespace: str = field(string, default="")
    uid: str = field(string, default="")
    labels: dict[str, str] = field(string_map, default=dict)
    annotations: dict[str, str] = field(string_map, default=dict)
    creation_timestamp: str = field(string, default="")
    deletion_timestamp: str = field(string, default="")
    deletion_grace_period_seconds: int | None = field(int64, default=None)


class V1Pod(V1Object):
    """A pod as a manifest describes it."""

    _ignored: ClassVar[frozenset[str]] = frozenset(("status",))

    api_version: str = field(string, default="")
    kind: str = field(string, default="")
    metadata: V1Metadata = field(record(V1Metadata), default=V1Metadata)
    spec: V1PodSpec = field(record(V1PodSpec), default=V1PodSpec)


def _base64(value: object, path: str) -> str:
    """Read the text of bytes in base64, and keep it: objects are stored as JSON."""
    text = string(value, path)
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        raise expected("base64", value, path) from None
    return text


class V1ConfigMap(V1Object):
    """A config map as a manifest describes it: texts in `data`, bytes in `binary_data`."""

    api_version: str = field(string, default="")
    kind: str = field(string, default="")
    metadata: V1Metadata = field(record(V1Metadata), default=V1Metadata)
    data: dict[str, str] = field(string_map, default=dict)
    binary_data: dict[str, str] = field(dict_of(_base64), default=dict)
    immutable: bool = field(boolean, default=False)

    def files(self) -> dict[str, bytes]:
        """Return the content by key: what a volume of this config map has as files."""
        texts = {key: text.encode() for key, text in self.data.items()}
        return texts | {key: base64.b64decode(text) for key, text in self.binary_data.items()}
