"""The node's share of an attachment: its interfaces on the node, and the firewall's entries about it."""

import re
from typing import Final

from firewall.owner import Owner
from harness.runtime.namespace_state import NamespaceState
from harness.runtime.pods import Pod, PodNetwork
from harness.snapshot import Snapshot
from harness.snapshot.compare import THINGS
from harness.snapshot.words import things_in_words
from netlink.link import Link

_SECTIONS: Final = ("nft elements", "nft rules", "iptables rules")


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
        lines = things_in_words(THINGS[section], snapshot.section(place, section))
        found += [(THINGS[section], line) for line in lines if about.search(line)]
    return found
