"""The volumes of a Pod manifest (Kubernetes API v1)."""

from typing import ClassVar, Final

from harness.kubelet.v1_object import V1Object, int32, quantity
from skel.decoders import boolean, list_of, record, string
from skel.record import field

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
                *(
                    "awsElasticBlockStore",
                    "azureDisk",
                    "cephfs",
                    "cinder",
                    "downwardAPI",
                    "fc",
                    "flexVolume",
                    "flocker",
                ),
                *("gcePersistentDisk", "gitRepo", "image", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume"),
                *("projected", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
            ],
            _LACKING,
        ),
        **_OF_API_SERVER,
    }

    name: str = field(string, default="")
    empty_dir: V1EmptyDirVolume | None = field(record(V1EmptyDirVolume), default=None)
    host_path: V1HostPathVolume | None = field(record(V1HostPathVolume), default=None)
    config_map: V1ConfigMapVolume | None = field(record(V1ConfigMapVolume), default=None)
