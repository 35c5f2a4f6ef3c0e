"""Neighbours: who has which address on a link, as ARP and NDP found out."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from pyroute2.netlink.rtnl.ndmsg import ndmsg

from netlink import messages
from netlink.codec import decode
from netlink.handle import Handle
from netlink.socket import Frame

__all__ = ["Neighbour", "NeighbourVerbs"]


class Neighbour(NamedTuple):
    """An entry of the neighbour table as it was when asked for."""

    address: IPv4Address | IPv6Address
    mac: str
    """"" when it is not known."""
    state: int
    """NUD_* of include/uapi/linux/neighbour.h."""


class NeighbourVerbs(Handle):
    """Neighbours."""

    def neighbours(self, index: int, family: int = 0) -> list[Neighbour]:
        """Return the neighbours on one link, of both families if `family` is 0. Raises NetlinkError."""
        request = messages.get_neighbours(index, family)
        frames = self._socket.dump(request, doing=f"list the neighbours on link {index}")
        return [_neighbour(frame) for frame in frames]


def _neighbour(frame: Frame) -> Neighbour:
    message = decode(ndmsg, frame.encoded)
    return Neighbour(
        address=ip_address(message.get_attr("NDA_DST")),
        mac=message.get_attr("NDA_LLADDR", ""),
        state=message["state"],
    )
