"""What pods leave on a node on purpose, and the last of them need not: bridges."""

from collections.abc import Iterable

from harness.cache import CachedAttachment
from harness.pod_view import host_links
from harness.pods import Pod, PodNetwork, PodRecordError
from harness.runtime import Runtime
from netlink.rtnl import Rtnl

__all__ = ["prune_links"]


def prune_links(runtime: Runtime, deleted: Iterable[Pod]) -> list[str]:
    """Remove the bridges that only these pods' results name and that have no ports left; return their names.

    An attachment of anybody's in the result cache counts as a user. Inside `Node.alone` only. Raises NetlinkError.
    """
    candidates = {name for pod in deleted for network in pod.networks for name in host_links(network)}
    for cached in runtime.cache.attachments():
        candidates -= set(host_links(_as_network(cached)))
    try:
        pods = runtime.node.pods.all()
    except PodRecordError:  # nobody knows what that one uses
        return []
    for pod in pods:
        for network in pod.networks:
            candidates -= set(host_links(network))
    if not candidates:
        return []
    removed = []
    with Rtnl(runtime.node.namespace()) as rtnl:
        for name in sorted(candidates):
            link = rtnl.link(name)
            if link is not None and link.kind == "bridge" and not rtnl.links_of(link.index):
                rtnl.delete_link(link.index)
                removed.append(name)
    return removed


def _as_network(cached: CachedAttachment) -> PodNetwork:
    return PodNetwork(name=cached.network, ifname=cached.attachment.ifname, result=cached.result)
