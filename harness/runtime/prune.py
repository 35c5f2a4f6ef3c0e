"""Removal of interfaces that deleted pods' networks made and that are now unused: bridges."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.runtime.cached_pods import network_of
from harness.runtime.pod_lifecycle import PodRuntime
from harness.runtime.pod_view import host_links
from harness.runtime.pods import PodRecordError
from netlink.rtnl import Rtnl
from netlink.sysctl import read_sysctl

_FORWARDING = ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding")


@dataclass(frozen=True)
class Pruned:
    """Names of removed interfaces, and of kept ones with the reason."""

    removed: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)


def prune_links(runtime: PodRuntime) -> Pruned:
    """Remove the bridges of deleted pods that have no ports, and no addresses but the gateways of these pods.

    A bridge is in use if a pod or any runtime's cached attachment names it. Inside `Node.alone` only.
    Raises NetlinkError, OSError.
    """
    done = Pruned()
    left = runtime.node.left_links
    candidates = left.all()
    if not candidates:
        return done
    try:
        used = set(_links_in_use(runtime))
    except PodRecordError:  # the interfaces of such a pod are unknown
        return done
    with Rtnl(runtime.node.namespace) as rtnl:
        for name, gateways in candidates.items():
            if name in used:
                continue
            link = rtnl.link(name)
            if link is None or link.kind != "bridge":
                left.forget(name)
            elif rtnl.links_of(link.ifindex):
                done.kept[name] = "it has ports"
            elif others := _foreign_addresses(rtnl, link.ifindex, gateways):
                done.kept[name] = f"no pod's network gave it {', '.join(others)}"
            else:
                rtnl.delete_link(link.ifindex)
                left.forget(name)
                done.removed.append(name)
    return done


def forwarding_that_stays() -> list[str]:
    """Return the kernel parameters that turn on forwarding in the calling thread's netns, in sysctl(8)'s form."""
    found = []
    for key in _FORWARDING:
        try:
            if read_sysctl(key) != "0":
                found.append(key.replace("/", "."))
        except OSError:  # a kernel without IPv6
            continue
    return found


def _links_in_use(runtime: PodRuntime) -> Iterator[str]:
    """Raises PodRecordError."""
    for cached in runtime.networks.cache.attachments():
        yield from host_links(network_of(cached))
    for pod in runtime.node.pods.all():
        for network in pod.networks:
            yield from host_links(network)


def _foreign_addresses(rtnl: Rtnl, index: int, gateways: frozenset[str]) -> list[str]:
    known = {ipaddress.ip_address(gateway) for gateway in gateways}
    interfaces = [address.interface for address in rtnl.addresses(index)]
    return [str(each) for each in interfaces if not each.ip.is_link_local and each.ip not in known]
