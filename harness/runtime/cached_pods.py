"""Pods of another runtime, by its cache of results: their networks can be listed and checked."""

from collections.abc import Callable, Iterable
from pathlib import Path

from harness.libcni.cache import CachedAttachment, ResultCache
from harness.libcni.repair import namespace_of
from harness.runtime.pod_record import Pod, PodNetwork
from harness.runtime.sandbox_life import SandboxState


class CachedPod(Pod):
    """A pod that has no record in the node's store."""


def cached_pods(cache_dir: Path, bin_dirs: Iterable[Path], *, warn: Callable[[str], object]) -> list[CachedPod]:
    """Return the pods that a cache names by CNI_ARGS, sorted by namespace and name; `bin_dirs` have their plugins."""
    found: dict[str, CachedPod] = {}
    for cached in ResultCache(cache_dir, warn=warn).attachments():
        names = dict(cached.attachment.cni_args)
        identifier = cached.attachment.container_id
        if "K8S_POD_NAME" in names:
            pod = found.setdefault(identifier, _pod(identifier, names, namespace_of(cached), bin_dirs))
            pod.networks.append(network_of(cached))
    return sorted(found.values(), key=lambda pod: (pod.namespace, pod.name))


def network_of(cached: CachedAttachment) -> PodNetwork:
    """Return a cached attachment as a network on a pod's record."""
    return PodNetwork(
        name=cached.network,
        ifname=cached.attachment.ifname,
        config=cached.config.decode(errors="replace"),
        capability_args=dict(cached.attachment.capability_args),
        result=cached.result,
    )


def _pod(container_id: str, names: dict[str, str], netns: str, bin_dirs: Iterable[Path]) -> CachedPod:
    return CachedPod(
        name=names["K8S_POD_NAME"],
        namespace=names.get("K8S_POD_NAMESPACE", "default"),
        uid=names.get("K8S_POD_UID", ""),
        container_id=container_id,
        netns=netns,
        state=SandboxState.READY,
        created="",
        bin_dirs=list(map(str, bin_dirs)),
        sandbox={},
    )
