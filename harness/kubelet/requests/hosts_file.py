"""The hosts file of a pod's containers, which kubelet writes (its kubelet_pods.go, managedHostsFileContent)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from api.pod import V1Pod
from harness.files import write_atomically

_HOST_FILE: Final = Path("/etc/hosts")
_LONGEST_NAME: Final = 63
_LONGEST_FULL_NAME: Final = 64
"""Bytes of the kernel's host name (sethostname(2))."""
_MANAGED: Final = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def pod_hostname(pod: V1Pod) -> str:
    """Return the host name of a pod: its own or the pod's name, of at most 63 characters."""
    return (pod.spec.hostname or pod.metadata.name)[:_LONGEST_NAME].rstrip("-.")


def kernel_hostname(pod: V1Pod) -> str:
    """Return the host name that the kernel gets: with `setHostnameAsFQDN` the full one, if the pod has a subdomain.

    There is no cluster domain, so it ends with a point. Raises ValueError if it is too long (GetNodenameForKernel).
    """
    name = pod_hostname(pod)
    if not (pod.spec.set_hostname_as_fqdn and pod.spec.subdomain):
        return name
    full = _full_name(pod)
    if len(full) > _LONGEST_FULL_NAME:
        limits = f"({_LONGEST_FULL_NAME} characters is the max, {len(full)} characters requested)"
        raise ValueError(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long {limits}"
        )
    return full


def _full_name(pod: V1Pod) -> str:
    return f"{pod_hostname(pod)}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc."


def hosts_file_content(pod: V1Pod, ips: Iterable[str], node_hosts: str) -> str:
    """Return the file; a pod on the node's network has the node's lines."""
    lines = ["\t".join((alias.ip, *alias.hostnames)) + "\n" for alias in pod.spec.host_aliases]
    aliases = "".join(["\n# Entries added by HostAliases.\n", *lines]) if lines else ""
    if pod.spec.host_network:
        return f"# Kubernetes-managed hosts file (host network).\n{node_hosts}{aliases}"
    names = f"{_full_name(pod)}\t{pod_hostname(pod)}" if pod.spec.subdomain else pod_hostname(pod)
    return _MANAGED + "".join(f"{ip}\t{names}\n" for ip in ips) + aliases


def write_hosts_file(path: Path, pod: V1Pod, ips: Iterable[str]) -> None:
    """Write the file, as at each start of a container. Raises OSError."""
    node_hosts = _HOST_FILE.read_text(errors="replace") if pod.spec.host_network and _HOST_FILE.exists() else ""
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    write_atomically(path, hosts_file_content(pod, ips, node_hosts).encode())
