"""The resolver settings of a pod, from the `dns` of its results (SPEC.md section 5)."""

from collections.abc import Iterable
from pathlib import Path

from skel.result import DNS

HOST_RESOLV_CONF = Path("/etc/resolv.conf")


def render_dns(dns: DNS) -> str:
    """Return `dns` in the format of resolv.conf(5)."""
    lines = [resolver_line("nameserver", [server]) for server in dns.nameservers]
    lines += [resolver_line("domain", [dns.domain])] if dns.domain else []
    lines += [resolver_line("search", dns.search)] if dns.search else []
    lines += [resolver_line("options", dns.options)] if dns.options else []
    return "".join(lines)


def resolver_line(key: str, words: Iterable[str]) -> str:
    """Return one line of resolv.conf(5): a newline in a word is a space, and makes no second line."""
    return f"{key} {' '.join(' '.join(words).split())}\n"


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
