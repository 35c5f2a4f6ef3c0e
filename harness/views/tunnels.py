"""VXLAN tunnels as the kernel has them, and how this project's agent marks its routes and its tunnel.

The neighbours of the tunnel's link have hardware addresses; its forwarding database has the tunnel's end of each.
"""

from collections.abc import Mapping
from socket import AF_BRIDGE
from typing import Final, NamedTuple

from harness.views.nft_values import Address
from netlink.kinds import Vxlan
from netlink.link import Link
from netlink.neighbours import list_neighbours
from netlink.rtnl import Rtnl

# A test compares these with the agent's own: this room does not import it.
AGENT_PROTOCOL: Final = 201
"""The protocol (RTPROT_*) of the agent's routes."""
AGENT_TUNNEL: Final = "cni-vxlan"
"""The name of its link."""
AGENT_NETWORK: Final = (1, 8472, False)
"""The number and UDP port of its tunnel, and that it does not learn."""

_UNKNOWN_MAC: Final = "00:00:00:00:00:00"
"""In a forwarding database: the ends of frames for all hardware addresses without an entry."""


class Tunnel(NamedTuple):
    """A VXLAN link."""

    link: Link
    settings: Vxlan
    neighbours: Mapping[Address, str]
    """Hardware addresses."""
    ends: Mapping[str, Address]
    """The tunnel's end of each hardware address."""

    @property
    def asks(self) -> bool:
        """Whether frames may also get to ends that no entry names, so that a missing entry stops nothing for sure."""
        return _UNKNOWN_MAC in self.ends or self.settings.vni == 0  # 0: routes have the numbers and the ends

    def lack(self, gateway: Address) -> str:
        """Return the entry that packets to a gateway behind the tunnel lack, in words; "" if none is missing."""
        mac = self.neighbours.get(gateway)
        if mac is None:
            return f"{self.link.name} has no neighbour entry for {gateway}"
        return f"{self.link.name} has no fdb entry for {mac}, the MAC of {gateway}" if mac not in self.ends else ""


def is_agents(link: Link) -> bool:
    """Tell whether a link is a tunnel to all nodes as the agent makes it; flannel's is alike."""
    settings = link.details.vxlan
    if settings is None:
        return False
    return link.name == AGENT_TUNNEL or (settings.vni, settings.port, settings.learning) == AGENT_NETWORK


def read_tunnel(rtnl: Rtnl, link: Link) -> Tunnel | None:
    """Read the neighbours and the forwarding database of a VXLAN link; None for another kind. Raises NetlinkError."""
    settings = link.details.vxlan
    if settings is None:
        return None
    neighbours = list_neighbours(rtnl, 0, ifindex=link.ifindex)
    entries = list_neighbours(rtnl, AF_BRIDGE, ifindex=link.ifindex)
    macs = {each.dst: each.lladdr for each in neighbours if each.dst is not None and each.lladdr}
    return Tunnel(link, settings, macs, {each.lladdr: each.dst for each in entries if each.dst is not None})
