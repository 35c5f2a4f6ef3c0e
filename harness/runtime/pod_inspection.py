"""Everything about one pod: the chain of plugins, the result, the kernel on both sides, and their contradictions.

The node's share of an attachment is its interfaces on the node, and the firewall's entries about it.
"""

import re
from pathlib import Path
from typing import Final

from firewall.owner import Owner
from harness.libcni.execute import Executor, PluginNotFoundError
from harness.libcni.networks import NetworkError, parse_network_list
from harness.runtime.namespace_state import NamespaceState, read_namespace_state
from harness.runtime.node import Node
from harness.runtime.node_snapshot import NODE, THIS_HOST, namespaces_of
from harness.runtime.pod_record import Pod, PodNetwork
from harness.runtime.pod_view import pod_document
from harness.runtime.result_comparison import compare
from harness.snapshot import Snapshot, take
from harness.snapshot.compare import THINGS
from harness.snapshot.descriptions import described_things
from netlink.link import Link
from netlink.routes import KernelRoute

_SECTIONS: Final = ("nft elements", "nft rules", "iptables rules")


def inspect_pod(node: Node, pod: Pod) -> dict[str, object]:
    """Return the document that `inspect` shows. Raises SnapshotError, NetlinkError, OSError."""
    inside = read_namespace_state(pod.netns)
    outside = read_namespace_state(node.netns or THIS_HOST)
    resolv_conf = node.pods.resolv_conf(pod)
    firewall = firewall_entries(take(namespaces_of(node, [])), NODE, pod) if outside else []
    return pod_document(pod) | {
        "resolvConf": str(resolv_conf) if resolv_conf.exists() else None,
        "networks": [_network(pod, network, inside, outside) for network in pod.networks],
        "kernel": {
            "links": [_link(link, inside) for link in inside.links] if inside else [],
            "routes": [_route(route, inside) for route in inside.main_routes()] if inside else [],
        },
        "firewall": [{"kind": kind, "words": words} for kind, words in firewall],
    }


def _network(
    pod: Pod, network: PodNetwork, inside: NamespaceState | None, outside: NamespaceState | None
) -> dict[str, object]:
    compared = compare(network, pod.netns, inside, outside) if inside else ()
    return {
        "name": network.name,
        "ifname": network.ifname,
        "source": network.source,
        "plugins": _plugins(pod, network),
        "result": network.result,
        "compared": [each._asdict() for each in compared],
        "hostLinks": [_link(link, outside) for link in host_interfaces(network, pod.netns, inside, outside)]
        if outside
        else [],
    }


def _plugins(pod: Pod, network: PodNetwork) -> list[dict[str, str]]:
    """Return the plugins of a network in the order of ADD, each with the executable now found for it."""
    try:
        plugins = parse_network_list(network.config.encode()).plugins
    except NetworkError:
        return []
    executor = Executor([Path(folder) for folder in pod.bin_dirs])
    return [
        {"type": plugin.type, "ipam": plugin.delegate, "executable": _executable(executor, plugin.type)}
        for plugin in plugins
    ]


def _executable(executor: Executor, type: str) -> str:
    try:
        return str(executor.find(type))
    except PluginNotFoundError:
        return ""


def _link(link: Link, state: NamespaceState) -> dict[str, object]:
    return {
        "name": link.name,
        "index": link.ifindex,
        "kind": link.kind,
        "mac": link.mac,
        "mtu": link.mtu,
        "up": link.up,
        "operState": link.oper_state,
        "addresses": [str(address) for address in state.addresses.get(link.ifindex, [])],
    } | ({"portOf": state.name(link.master)} if link.master else {})


def _route(route: KernelRoute, state: NamespaceState) -> dict[str, object]:
    entry: dict[str, object] = {"dst": str(route.dst), "dev": state.name(route.ifindex)}
    if route.gateway is not None:
        entry["gw"] = str(route.gateway)
    optional = {"mtu": route.mtu, "advmss": route.advmss, "priority": route.priority}
    return entry | {key: value for key, value in optional.items() if value}


def host_interfaces(network: PodNetwork, netns: str, pod: NamespaceState | None, node: NamespaceState) -> list[Link]:
    """Return the node's interfaces of an attachment: the peers of its veths, their bridges, and those of its result."""
    result = network.decoded()
    inside = {link.name for link in result.interfaces if link.sandbox == netns} or {network.ifname}
    ends = [link for link in (pod.links if pod else []) if link.name in inside and link.peer_ifindex]
    # The peer's index alone could also be that of a link in a third namespace.
    peers = [
        link
        for link in node.links
        for end in ends
        if (link.ifindex, link.peer_ifindex) == (end.peer_ifindex, end.ifindex)
    ]
    named = [link for each in result.interfaces if not each.sandbox and (link := node.link(each.name)) is not None]
    masters = [link for link in node.links if link.ifindex in {port.master for port in [*peers, *named]} - {0}]
    return list(dict.fromkeys([*peers, *masters, *named]))


def firewall_entries(snapshot: Snapshot, place: str, pod: Pod) -> list[tuple[str, str]]:
    """Return the firewall's entries about a pod in one place of a snapshot, as pairs of kind and words.

    These entries carry the owner's label or the container ID, or name one of the pod's addresses.
    """
    addresses = {str(ip.address.ip) for network in pod.networks for ip in network.decoded().ips}
    labels = {Owner(network.name, pod.container_id, network.ifname).label() for network in pod.networks}
    words = "|".join(map(re.escape, sorted({pod.container_id, *labels, *addresses})))
    about = re.compile(rf"(?<![\w.:])({words})(?![\w:]|\.\d|/(?!32\b|128\b)\d)")
    found = []
    for section in _SECTIONS:
        lines = described_things(THINGS[section], snapshot.section(place, section))
        found += [(THINGS[section], line) for line in lines if about.search(line)]
    return found
