"""Labels and annotations of sandboxes and containers, by which kubelet finds them again (its kuberuntime/labels.go)."""

import json
from typing import Final

from api.container import V1Container
from api.pod import V1Pod

POD_NAME: Final = "io.kubernetes.pod.name"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"

CONTAINER_HASH: Final = "io.kubernetes.container.hash"
RESTART_COUNT: Final = "io.kubernetes.container.restartCount"
TERMINATION_MESSAGE_PATH: Final = "io.kubernetes.container.terminationMessagePath"
TERMINATION_MESSAGE_POLICY: Final = "io.kubernetes.container.terminationMessagePolicy"
PRE_STOP_HANDLER: Final = "io.kubernetes.container.preStopHandler"
CONTAINER_PORTS: Final = "io.kubernetes.container.ports"
POD_TERMINATION_GRACE_PERIOD: Final = "io.kubernetes.pod.terminationGracePeriod"
POD_DELETION_GRACE_PERIOD: Final = "io.kubernetes.pod.deletionGracePeriod"

CONFIG_SOURCE: Final = "kubernetes.io/config.source"
CONFIG_HASH: Final = "kubernetes.io/config.hash"
CONFIG_SEEN: Final = "kubernetes.io/config.seen"

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_UINT32: Final = 0xFFFFFFFF


def pod_labels(pod: V1Pod) -> dict[str, str]:
    """Return the labels of a pod's sandbox: the pod's own, and its identity."""
    return {**pod.metadata.labels, **_identity(pod)}


def container_labels(pod: V1Pod, container: V1Container) -> dict[str, str]:
    """Return the labels of a container: identity only, not the pod's own labels."""
    return {**_identity(pod), CONTAINER_NAME: container.name}


def container_annotations(pod: V1Pod, container: V1Container, restart_count: int) -> dict[str, str]:
    """Return the annotations of a container, enough to stop it after its pod's manifest is gone."""
    annotations = {
        CONTAINER_HASH: container_hash(container),
        RESTART_COUNT: str(restart_count),
        TERMINATION_MESSAGE_PATH: container.termination_message_path,
        TERMINATION_MESSAGE_POLICY: container.termination_message_policy,
    }
    if pod.metadata.deletion_grace_period_seconds is not None:
        annotations[POD_DELETION_GRACE_PERIOD] = str(pod.metadata.deletion_grace_period_seconds)
    if pod.spec.termination_grace_period_seconds is not None:
        annotations[POD_TERMINATION_GRACE_PERIOD] = str(pod.spec.termination_grace_period_seconds)
    if container.lifecycle.pre_stop is not None:
        annotations[PRE_STOP_HANDLER] = json.dumps(container.lifecycle.pre_stop.encode())
    if container.ports:
        annotations[CONTAINER_PORTS] = json.dumps([port.encode() for port in container.ports])
    return annotations


def container_hash(container: V1Container) -> str:
    """Return a hash of name and image, which tell a container from a changed one (kubelet's HashContainer).

    It is FNV-1a with 32 bits over JSON, in hex without leading zeros. kubelet hashes a Go dump of the same JSON, so the
    values differ from its own.
    """
    text = json.dumps({"image": container.image, "name": container.name}, separators=(",", ":"))
    value = _FNV_OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _FNV_PRIME & _UINT32
    return f"{value:x}"


def is_static(pod: V1Pod) -> bool:
    """Tell whether a pod comes from a file, not from an API server (kubelet's IsStaticPod)."""
    return pod.metadata.annotations.get(CONFIG_SOURCE, "api") != "api"


def _identity(pod: V1Pod) -> dict[str, str]:
    return {POD_NAME: pod.metadata.name, POD_NAMESPACE: pod.metadata.namespace, POD_UID: pod.metadata.uid}
