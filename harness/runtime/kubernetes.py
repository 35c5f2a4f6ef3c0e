"""A pod's identity as kubelet and containerd hand it to plugins."""

import re

__all__ = ["PodNameError", "check_pod", "check_pod_name", "pod_cni_args"]

# RFC 1123 labels joined by dots: what the API server accepts as a pod's name.
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 253


class PodNameError(Exception):
    """Not a name that Kubernetes would accept."""


def check_pod(namespace: str, name: str) -> None:
    """Raise PodNameError unless a pod could have these names."""
    check_pod_name(name)
    check_pod_name(namespace, "namespace")


def check_pod_name(name: str, what: str = "pod name") -> None:
    """Raise PodNameError unless `name` is an RFC 1123 subdomain, as the API server wants pods and namespaces named."""
    if len(name) > _LONGEST_NAME or not _SUBDOMAIN.fullmatch(name):
        wanted = f"wanted lower-case letters, digits, '-' and '.', at most {_LONGEST_NAME} characters"
        raise PodNameError(f"{what} {name!r}: {wanted}")


def pod_cni_args(namespace: str, name: str, container_id: str, uid: str) -> dict[str, str]:
    """Return the pairs of CNI_ARGS for a pod, as containerd's and CRI-O's CRI servers send them.

    IgnoreUnknown is for plugins that would otherwise refuse pairs they do not know.
    """
    return {
        "IgnoreUnknown": "1",
        "K8S_POD_NAMESPACE": namespace,
        "K8S_POD_NAME": name,
        "K8S_POD_INFRA_CONTAINER_ID": container_id,
        "K8S_POD_UID": uid,
    }
