"""A pod's identity as kubelet and containerd hand it to plugins."""

import re

# RFC 1123 labels joined by dots: the API server accepts no other pod name.
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 253


class PodNameError(Exception):
    """Kubernetes would reject this name."""


def check_pod(namespace: str, name: str) -> None:
    """Raise PodNameError unless both are RFC 1123 subdomains, as the API server requires of pods and namespaces."""
    for title, text in (("pod name", name), ("namespace", namespace)):
        if len(text) > _LONGEST_NAME or not _SUBDOMAIN.fullmatch(text):
            wanted = f"wanted lower-case letters, digits, '-' and '.', at most {_LONGEST_NAME} characters"
            raise PodNameError(f"{title} {text!r}: {wanted}")


def pod_cni_args(namespace: str, name: str, container_id: str, uid: str) -> dict[str, str]:
    """Return the pairs of CNI_ARGS for a pod, as containerd's and CRI-O's CRI servers send them.

    IgnoreUnknown keeps plugins from rejecting pairs that they do not know.
    """
    return {
        "IgnoreUnknown": "1",
        "K8S_POD_NAMESPACE": namespace,
        "K8S_POD_NAME": name,
        "K8S_POD_INFRA_CONTAINER_ID": container_id,
        "K8S_POD_UID": uid,
    }
