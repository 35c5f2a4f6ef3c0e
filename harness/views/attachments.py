"""The attachments that are known: those in the records of pods, and those in runtimes' caches of results."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.libcni.cache import ResultCache
from harness.libcni.repair import namespace_of
from harness.runtime.cached_pods import network_of
from harness.runtime.node import Node
from harness.runtime.pod_record import PodNetwork
from harness.runtime.pod_view import pod_state

_USUAL_NAMESPACE = "default"


class KnownAttachment(NamedTuple):
    """An attachment, from the record of one of the harness's pods or from a cache."""

    pod: str
    """`default/pod1`; empty if the cached CNI_ARGS name no pod of Kubernetes."""
    container_id: str
    netns: str
    """The path of the network namespace; empty if the cache does not have it."""
    network: PodNetwork
    is_ours: bool
    """Whether the harness has a record of the pod."""
    is_incomplete: bool = False
    """Whether the pod's ADD or DEL did not finish."""

    @property
    def name(self) -> str:
        """The pod's name as kubectl and `cni-harness list` show it, otherwise 12 digits of the container ID."""
        namespace, _, name = self.pod.partition("/")
        if not name:
            return self.container_id[:12]
        return name if namespace == _USUAL_NAMESPACE else self.pod

    @property
    def key(self) -> tuple[str, str, str]:
        """Network, container ID and interface: the owner's three parts."""
        return self.network.name, self.container_id, self.network.ifname


def known_attachments(
    node: Node, *, cache_dirs: Sequence[Path] = (), warn: Callable[[str], object]
) -> list[KnownAttachment]:
    """Return the attachments of the node's pods, then attachments that only a cache has.

    `cache_dirs` are read in place of the node's /var/lib/cni. `warn` gets a line for each unreadable file.
    Raises PermissionError.
    """
    found: dict[tuple[str, str, str], KnownAttachment] = {}
    for pod in node.pods.all(on_error=lambda error: warn(str(error))):
        incomplete = pod_state(pod) == "incomplete"
        for network in pod.networks:
            known = KnownAttachment(pod.title, pod.container_id, pod.netns, network, is_ours=True)
            found[known.key] = known._replace(is_incomplete=incomplete)
    for folder in cache_dirs or (node.var_lib_cni,):
        for cached in ResultCache(folder, warn=warn).attachments():
            its, network = cached.attachment, network_of(cached)
            title = _kubernetes_pod(its.cni_args)
            known = KnownAttachment(title, its.container_id, namespace_of(cached), network, is_ours=False)
            found.setdefault(known.key, known)
    return list(found.values())


def plugins_of(network: PodNetwork) -> list[Mapping[str, Any]]:
    """Return the configurations of a network's plugins with keys in small letters; none if it is unreadable."""
    try:
        document = json.loads(network.config)
    except ValueError:
        return []
    plugins = document.get("plugins", [document]) if isinstance(document, dict) else []
    return [
        {str(key).lower(): value for key, value in each.items()}
        for each in (plugins if isinstance(plugins, list) else [])
        if isinstance(each, dict)
    ]


def _kubernetes_pod(cni_args: Iterable[tuple[str, str]]) -> str:
    named = dict(cni_args)
    name = named.get("K8S_POD_NAME", "")
    return f"{named.get('K8S_POD_NAMESPACE', _USUAL_NAMESPACE)}/{name}" if name else ""
