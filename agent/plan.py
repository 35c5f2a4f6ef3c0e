"""The ways from this node to the ranges of all others: a direct route to each, or one through a tunnel.

The plan is a function of the judged nodes and of the links that lead to their addresses; it changes nothing.
"""

from collections.abc import Mapping
from enum import Enum
from ipaddress import IPv4Interface, IPv6Interface
from typing import Final, NamedTuple, TypeAlias

from agent.peers import Address, Judgement, Network, Peer, Problem, tunnel_mac
from netlink.kinds import VXLAN_OVERHEAD, Vxlan
from netlink.link import Link

Interface: TypeAlias = IPv4Interface | IPv6Interface

TUNNEL: Final = "cni-vxlan"
"""The name of the tunnel's link."""
VNI: Final = 1
PORT: Final = 8472
"""UDP, as in Linux and flannel; RFC 7348 has 4789."""


class Backend(Enum):
    """How packets get to another node; the values are those of the option."""

    HOST_GW = "host-gw"
    VXLAN = "vxlan"
    AUTO = "auto"
    """Directly to nodes on the same link, through the tunnel to all others."""


class Underlay(NamedTuple):
    """The links of this node that matter to the plan."""

    own: Mapping[Address, Link]
    """The links that have this node's addresses, or that packets leave by if an address is on lo.

    The tunnel's link stands in for a link that has lost the address of the tunnel's end, so that the tunnel stays.
    """
    on_link: Mapping[Address, int]
    """The addresses of others that need no gateway, each with the ifindex of the link."""
    down: Mapping[Network, Link] = {}
    """The networks of this node's addresses whose link is down, or has no carrier, each with the link."""


class Hop(NamedTuple):
    """The way to a range of pods."""

    gateway: Address
    """A node's address, or in the tunnel the first address of the range, which is no pod's."""
    ifindex: int
    """Of the link, 0 for the tunnel."""


class Tunnel(NamedTuple):
    """The tunnel's link."""

    settings: Vxlan
    mtu: int
    """Bytes."""
    mac: str
    addresses: tuple[Interface, ...]
    """Sources for packets of this node itself: the first address of each of its ranges."""


class Ways(NamedTuple):
    """The ways to one other node."""

    hops: dict[Network, Hop]
    neighbours: dict[Address, str]
    """The hardware address of each gateway in the tunnel."""
    ends: dict[str, Address]
    """The tunnel's end, by its hardware address, if the tunnel leads there."""
    problems: list[Problem]


NO_WAYS: Final = Ways({}, {}, {}, [])


class Site(NamedTuple):
    """This node's own part of the plan."""

    node: Peer
    backend: Backend
    local: Address | None
    """The address of this end of the tunnel."""
    mtu: int
    """Bytes that fit into a packet of a pod on every way; 0 if it is unknown."""
    problems: list[Problem]
    down: Mapping[Network, Link] = {}
    """As in the underlay."""

    def ways_to(self, peer: Peer, on_link: Mapping[Address, int]) -> Ways:
        """Plan the ways to another node. To a node on a link that is down, no tunnel replaces the direct way."""
        ways = Ways({}, {}, {}, [])
        down, direct = self._direct_links(peer, on_link)
        for network in peer.pod_cidrs:
            address = peer.addresses.get(network.version)
            if address is not None and address in direct:
                ways.hops[network] = Hop(address, direct[address])
            elif down or self.backend is Backend.HOST_GW:
                why = f"its address {address} is on no link of this node" if address else "it has no such address"
                why = f"the link {down} is down" if down else why
                ways.problems.append(Problem(peer.name, f"no direct route to {network}: {why}"))
            else:
                self._add_tunnelled(ways, peer, network)
        return ways

    def _direct_links(self, peer: Peer, on_link: Mapping[Address, int]) -> tuple[str, dict[Address, int]]:
        """Return the name of the link to a node if it is down, and the ifindexes for its addresses on a link."""
        if self.backend is Backend.VXLAN:
            return "", {}
        addresses = peer.addresses.values()
        down = {each: link for each in addresses for network, link in self.down.items() if each in network}
        without_carrier = {each: link.ifindex for each, link in down.items() if link.up}
        name = next((link.name for link in down.values()), "")
        return name, without_carrier | {each: on_link[each] for each in addresses if each in on_link}

    def _add_tunnelled(self, ways: Ways, peer: Peer, network: Network) -> None:
        end = peer.addresses.get(self.local.version) if self.local is not None else None
        if end is None:
            family = f"IPv{self.local.version}" if self.local is not None else "IP"
            ways.problems.append(Problem(peer.name, f"no tunnel to {network}: it has no {family} address"))
            return
        mac, gateway = tunnel_mac(peer.name), network.network_address
        ways.hops[network] = Hop(gateway, 0)
        ways.neighbours[gateway] = mac
        ways.ends[mac] = end


class Plan(NamedTuple):
    """The wanted state of a node's kernel; `ways` has the other nodes by their names."""

    site: Site
    ways: dict[str, Ways]
    refused: list[Problem]
    """Claims of Nodes that are not followed."""

    @property
    def tunnel(self) -> Tunnel | None:
        """The tunnel's link; None if no way leads through it."""
        site = self.site
        is_used = site.backend is Backend.VXLAN or any(each.ends for each in self.ways.values())
        if site.local is None or not is_used:
            return None
        addresses = tuple(_alone(network.network_address) for network in site.node.pod_cidrs)
        settings = Vxlan(VNI, site.local, PORT, learning=False)
        return Tunnel(settings, site.mtu, tunnel_mac(site.node.name), addresses)

    def without_tunnel(self) -> "Plan":
        """Return the part of the plan that needs no tunnel."""
        direct = {
            name: Ways({dst: hop for dst, hop in each.hops.items() if hop.ifindex}, {}, {}, each.problems)
            for name, each in self.ways.items()
        }
        return self._replace(site=self.site._replace(local=None), ways=direct)

    @property
    def problems(self) -> list[Problem]:
        """All that keeps a node from being reached."""
        return [
            *self.refused,
            *self.site.problems,
            *(problem for each in self.ways.values() for problem in each.problems),
        ]


def make_site(node: Peer, backend: Backend, underlay: Underlay, mtu: int = 0) -> Site:
    """Plan this node's own part. `mtu` in bytes comes before that of the link."""
    own = underlay.own
    # Both ends have to choose one family, whatever the order of their addresses is.
    local = next((address for _, address in sorted(node.addresses.items()) if address in own), None)
    if local is None:
        addresses = ", ".join(map(str, node.addresses.values())) or "none"
        problem = Problem(node.name, f"no link of this node has one of its addresses ({addresses})")
        return Site(node, backend, None, mtu, [problem], underlay.down)
    problems = []
    if own[local].name == TUNNEL:
        problems.append(Problem(node.name, f"no link of this node has its address {local}; the tunnel stays as it is"))
    overhead = 0 if backend is Backend.HOST_GW else VXLAN_OVERHEAD[local.version]
    return Site(node, backend, local, mtu or own[local].mtu - overhead, problems, underlay.down)


def make_plan(judgement: Judgement, own: str, backend: Backend, underlay: Underlay, mtu: int = 0) -> Plan:
    """Plan for the node `own`, also if there is no such Node; `mtu` as of `make_site`."""
    node = judgement.peers.get(own)
    if node is None:
        missing = Problem(own, "there is no such Node")
        return Plan(Site(Peer(own, (), {}), backend, None, 0, [missing]), {}, judgement.problems)
    site = make_site(node, backend, underlay, mtu)
    ways = {name: site.ways_to(peer, underlay.on_link) for name, peer in judgement.peers.items() if name != own}
    return Plan(site, ways, judgement.problems)


def _alone(address: Address) -> Interface:
    """Return an address that is alone in its network, so that no route to a range comes with it."""
    return IPv4Interface(address) if address.version == 4 else IPv6Interface(address)  # noqa: PLR2004 -- the version
