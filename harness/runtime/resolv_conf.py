"""The resolver settings of a pod, from the `dns` of its results (SPEC.md section 5)."""

from collections.abc import Iterable
from pathlib import Path

from skel.result import DNS

__all__ = ["HOST_RESOLV_CONF", "pod_resolv_conf", "render_dns"]

HOST_RESOLV_CONF = Path("/etc/resolv.conf")


def render_dns(dns: DNS) -> str:
    """Return `dns` in the format of resolv.conf(5)."""
    lines = [f"nameserver {server}" for server in dns.nameservers]
    if dns.domain:
        lines.append(f"domain {dns.domain}")
    if dns.search:
        lines.append(f"search {' '.join(dns.search)}")
    if dns.options:
        lines.append(f"options {' '.join(dns.options)}")
    return "".join(f"{line}\n" for line in lines)


def pod_resolv_conf(results: Iterable[DNS], fallback: Path = HOST_RESOLV_CONF) -> str:
    """Return a pod's resolv.conf: from the first network with `dns` settings, otherwise the node's own.

    kubelet gives a pod with dnsPolicy Default the node's, too. The first line names the source of the settings.
    """
    for dns in results:
        if dns:
            return "# From the network's dns.\n" + render_dns(dns)
    try:
        inherited = fallback.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return f"# No network of this pod says anything of dns, and there is no {fallback}.\n"
    return f"# No network of this pod says anything of dns: copied from {fallback}.\n{inherited}"
