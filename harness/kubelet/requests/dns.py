"""The resolver settings of a pod, from its DNS policy and the node's resolv.conf (kubelet's network/dns)."""

from pathlib import Path
from typing import Final, NamedTuple

from api.pod import V1Pod
from harness.cri.messages import DNSConfig
from harness.runtime.resolv_conf import HOST_RESOLV_CONF

_MAXIMUM_SERVERS: Final = 3  # these limits: Kubernetes' core/validation (MaxDNSNameservers and others)
_MAXIMUM_SEARCHES: Final = 32
_MAXIMUM_SEARCH_CHARACTERS: Final = 2048


class DNSNote(NamedTuple):
    """The reason and message of a warning event."""

    reason: str
    message: str


class PodDNS(NamedTuple):
    """The settings of a sandbox, and the warnings about them."""

    config: DNSConfig
    notes: tuple[DNSNote, ...]


def pod_dns(pod: V1Pod, resolv_conf: Path = HOST_RESOLV_CONF) -> PodDNS:
    """Return the settings of a pod. Raises OSError if the node's file cannot be read.

    There is no cluster DNS: policy ClusterFirst is Default, with a warning, as by a kubelet without `clusterDNS`.
    """
    notes = []
    policy = pod.spec.dns_policy
    first_of_cluster = policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not pod.spec.host_network)
    if first_of_cluster:
        message = (
            f'pod: "{pod}". kubelet does not have ClusterDNS IP configured and cannot create Pod using '
            '"ClusterFirst" policy. Falling back to "Default" policy.'
        )
        notes.append(DNSNote("MissingClusterDNS", message))
    config = DNSConfig() if policy == "None" else _parsed(resolv_conf)
    if pod.spec.dns_config is not None:
        own = pod.spec.dns_config
        config.servers = list(dict.fromkeys([*config.servers, *own.nameservers]))
        config.searches = list(dict.fromkeys([*config.searches, *own.searches]))
        by_name = {option.partition(":")[0]: option for option in config.options}
        for option in own.options:
            by_name[option.name] = f"{option.name}:{option.value}" if option.value else option.name
        config.options = list(by_name.values())
    return PodDNS(config, (*notes, *_fitted(config)))


def _parsed(path: Path) -> DNSConfig:
    """Read resolv.conf(5): all servers, the last line of searches, all options."""
    config = DNSConfig()
    if not path.exists():
        return config
    for line in path.read_text(errors="replace").splitlines():
        words = line.split()
        if not words or words[0].startswith(("#", ";")):
            continue
        key, *values = words
        if key == "nameserver":
            config.servers += values[:1]
        elif key == "search":
            config.searches = [stripped for name in values if (stripped := name.rstrip("."))]
        elif key == "options":
            config.options += values
    return config


def _fitted(config: DNSConfig) -> list[DNSNote]:
    """Cut the settings to the limits of resolvers, and return a note for each cut."""
    notes = []
    if len(config.servers) > _MAXIMUM_SERVERS:
        config.servers = config.servers[:_MAXIMUM_SERVERS]
        message = (
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "
            f"{' '.join(config.servers)}"
        )
        notes.append(DNSNote("DNSConfigForming", message))
    fitting = config.searches[:_MAXIMUM_SEARCHES]
    while len(" ".join(fitting)) > _MAXIMUM_SEARCH_CHARACTERS:
        fitting.pop()
    if fitting != config.searches:
        config.searches = fitting
        message = (
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "
            f"{' '.join(fitting)}"
        )
        notes.append(DNSNote("DNSConfigForming", message))
    return notes
