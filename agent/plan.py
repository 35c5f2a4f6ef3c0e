"""What leads from this node to the ranges of all others: a direct route to each, or one through a tunnel.

The plan is a function of the judged nodes and of what the kernel says about their addresses; it changes nothing.
"""

from collections.abc import Mapping
from enum import Enum
from ipaddress import IPv4Interface, IPv6Interface
from typing import Final, NamedTuple, TypeAlias

from agent.peers import Address, Judgement, Network, Peer, Problem, tunnel_mac
from netlink.kinds import Vxlan
from netlink.link import Link

Interface: TypeAlias = IPv4Interface | IPv6Interface

TUNNEL: Final = "cni-vxlan"
"""The name of the tunnel's link."""
VNI: Final = 1
PORT: Final = 8472
"""UDP, as in Linux and flannel; RFC 7348 has 4789."""
OVERHEAD: Final = {4: 50, 6: 70}
"""Bytes that a tunnel adds to a packet, by the IP version of its ends: IP, UDP, VXLAN and Ethernet headers."""


class Backend(Enum):
    """How packets get to another node; the values are those of the option."""

    HOST_GW = "host-gw"
    VXLAN = "vxlan"
    AUTO = "auto"
    """Directly to nodes on the same link, through the tunnel to all others."""


class Underlay(NamedTuple):
    """What the kernel says about the nodes' addresses."""

    own: Mapping[Address, Link]
    """The links that have this node's addresses."""
    on_link: Mapping[Address, int]
    """The addresses of others that need no gateway, each with the ifindex of the link."""


class Hop(NamedTuple):
    """The way to a range of pods."""

    gateway: Address
    """A node's address, or in the tunnel the first address of the range, which is no pod's."""
    ifindex: int
    """Of the link, 0 for the tunnel."""


class Tunnel(NamedTuple):
    """The tunnel's link, and the ends of the others by their hardware addresses."""

    settings: Vxlan
    mtu: int
    """Bytes."""
    mac: str
    addresses: tuple[Interface, ...]
    """Sources for packets of this node itself: the first address of each of its ranges."""
    ends: dict[str, Address]


class Plan(NamedTuple):
    """The wanted state."""

    hops: dict[Network, Hop]
    neighbours: dict[Address, str]
    """The hardware addresses of the gateways in the tunnel."""
    tunnel: Tunnel | None
    pod_mtu: int
    """Bytes that fit into a packet of a pod on every way; 0 if it is unknown."""
    problems: list[Problem]


def make_plan(judgement: Judgement, own: str, backend: Backend, underlay: Underlay, mtu: int = 0) -> Plan:
    """Plan for the node `own`; `mtu` in bytes is that of pods, if it is not to follow from the links."""
    node = judgement.peers.get(own)
    if node is None:
        return Plan({}, {}, None, 0, [*judgement.problems, Problem(own, "there is no such Node")])
    planned = _Planned(node, backend, underlay, mtu)
    for name, peer in judgement.peers.items():
        if name != own:
            planned.add(peer)
    return planned.plan(judgement.problems)


class _Planned:
    """The ways to the peers that were added."""

    def __init__(self, node: Peer, backend: Backend, underlay: Underlay, mtu: int) -> None:
        self._node = node
        self._backend = backend
        self._underlay = underlay
        self._hops: dict[Network, Hop] = {}
        self._neighbours: dict[Address, str] = {}
        self._ends: dict[str, Address] = {}
        self._problems: list[Problem] = []
        local = next((each for each in node.addresses.values() if each in underlay.own), None)
        self._local = local
        self._mtu = mtu
        if local is None:
            addresses = ", ".join(map(str, node.addresses.values())) or "none"
            self._problems.append(Problem(node.name, f"no link of this node has one of its addresses ({addresses})"))
        elif not mtu:
            tunnels = backend is not Backend.HOST_GW
            self._mtu = underlay.own[local].mtu - (OVERHEAD[local.version] if tunnels else 0)

    def add(self, peer: Peer) -> None:
        """Plan the ways to one node."""
        for network in peer.pod_cidrs:
            address = peer.addresses.get(network.version)
            ifindex = self._underlay.on_link.get(address) if address is not None else None
            if ifindex is not None and address is not None and self._backend is not Backend.VXLAN:
                self._hops[network] = Hop(address, ifindex)
            elif self._backend is Backend.HOST_GW:
                why = f"its address {address} is on no link of this node" if address else "it has no such address"
                self._problems.append(Problem(peer.name, f"no direct route to {network}: {why}"))
            else:
                self._add_end(peer, network)

    def _add_end(self, peer: Peer, network: Network) -> None:
        end = peer.addresses.get(self._local.version) if self._local is not None else None
        if end is None:
            family = f"IPv{self._local.version}" if self._local is not None else "IP"
            self._problems.append(Problem(peer.name, f"no tunnel to {network}: it has no {family} address"))
            return
        mac = tunnel_mac(peer.name)
        gateway = network.network_address
        self._hops[network] = Hop(gateway, 0)
        self._neighbours[gateway] = mac
        self._ends[mac] = end

    def plan(self, problems: list[Problem]) -> Plan:
        """Return the plan, with the problems of the judgement before its own."""
        tunnel = None
        if self._local is not None and (self._ends or self._backend is Backend.VXLAN):
            node = self._node
            addresses = tuple(_host(network) for network in node.pod_cidrs)
            settings = Vxlan(VNI, self._local, PORT, learning=False)
            tunnel = Tunnel(settings, self._mtu, tunnel_mac(node.name), addresses, self._ends)
        return Plan(self._hops, self._neighbours, tunnel, self._mtu, [*problems, *self._problems])


def _host(network: Network) -> Interface:
    """Return the first address of a range, alone in its network, so that no route to the range comes with it."""
    first = network.network_address
    return IPv4Interface(first) if first.version == 4 else IPv6Interface(first)  # noqa: PLR2004 -- the version's number
