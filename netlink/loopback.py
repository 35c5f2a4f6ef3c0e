"""The loopback interface of a network namespace.

A container runtime has `lo` brought up for every pod, so this loads neither pyroute2 nor the other verbs.
"""

from ipaddress import IPv4Interface, IPv6Interface

from netlink.addresses import list_addresses
from netlink.link import find_link
from netlink.link_wire import change_link
from netlink.request import RtnlSocket

# The kernel gives `lo` this ifindex in every namespace (LOOPBACK_IFINDEX in include/net/flow.h), under any name.
_IFINDEX = 1


class Loopback(RtnlSocket):
    """The `lo` of one namespace; a context manager around its socket. Not to be shared between threads."""

    def set_up(self) -> None:
        """Set it up; the kernel gives it 127.0.0.1/8 (if it has no IPv4 address) and ::1. Raises NetlinkError."""
        self._tried(change_link(_IFINDEX, up=True), doing="bring up lo")

    def set_down(self) -> None:
        """Set it down; its IPv4 addresses stay, ::1 goes. Raises NetlinkError."""
        self._tried(change_link(_IFINDEX, up=False), doing="bring down lo")

    def is_up(self) -> bool:
        """Tell whether it is administratively up. Raises NetlinkError."""
        link = self._asked(find_link(_IFINDEX))
        return link is not None and link.up

    def addresses(self) -> list[IPv4Interface | IPv6Interface]:
        """Return its addresses, IPv4 before IPv6, each family in the kernel's order. Raises NetlinkError."""
        found = [address.interface for address in self._asked(list_addresses(_IFINDEX))]
        return sorted(found, key=lambda interface: interface.version)
