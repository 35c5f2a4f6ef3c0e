"""Manifests in files, and what kubelet makes of their pods (its config/common.go)."""

import hashlib
import json
from pathlib import Path
from typing import Final

from api.manifest import Manifests, parse_manifests
from api.pod import V1Pod, V1Toleration
from harness.files import read_regular
from harness.kubelet.labels import CONFIG_HASH, CONFIG_SOURCE

LARGEST: Final = 10 * 2**20
"""Bytes of a manifest file, as in kubelet."""


def read_manifests(path: Path) -> Manifests:
    """Return the pods and config maps of a file. Raises OSError."""
    content = read_regular(path, LARGEST + 1, follow=True)
    if len(content) > LARGEST:
        return Manifests([], {}, [f"more than {LARGEST} bytes"])
    return parse_manifests(content)


def static_pod(pod: V1Pod, file: Path, node_name: str, *, suffix: bool = True) -> V1Pod:
    """Return a copy of a pod that `with_defaults` has made, as a static pod (kubelet's applyDefaults).

    Its UID has 32 hexadecimal digits, which are a hash of the pod, the node's name and the file's path: an edited file
    has another pod. A UID in the manifest is kept. `suffix` adds the node's name to the pod's.
    """
    pod = pod.copy()
    pod.metadata.uid = pod.metadata.uid or _hash(pod, file, node_name)
    if suffix:
        pod.metadata.name += f"-{node_name.lower()}"
    pod.metadata.namespace = pod.metadata.namespace or "default"
    pod.metadata.annotations |= {CONFIG_HASH: pod.metadata.uid, CONFIG_SOURCE: "file"}
    pod.spec.node_name = node_name
    toleration = V1Toleration(operator="Exists", effect="NoExecute")
    kept = [known for known in pod.spec.tolerations if _taint(known) != _taint(toleration)]
    pod.spec.tolerations = [*kept, toleration]
    return pod


def _hash(pod: V1Pod, file: Path, node_name: str) -> str:
    """Return 128 bits of hash in hexadecimal; kubelet's FNV-1a over Go's own print of a pod cannot be repeated here."""
    text = json.dumps([pod.encode(), node_name, str(file)], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _taint(toleration: V1Toleration) -> tuple[str, str, str, str]:
    return toleration.key, toleration.operator, toleration.value, toleration.effect
