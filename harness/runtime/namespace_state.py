"""The links, addresses and routes that a network namespace has now."""

from socket import AF_INET, AF_INET6
from typing import NamedTuple

from netlink.addresses import ALL_LINKS
from netlink.link import Link
from netlink.namespace import Namespace, NotANamespaceError, open_namespace
from netlink.routes import RT_TABLE_MAIN, KernelRoute
from netlink.rtnl import Rtnl
from skel.decoders import Cidr

_RT_TABLE_LOCAL = 255
"""The kernel's own routes to the addresses of the namespace; include/uapi/linux/rtnetlink.h."""


class NamespaceState(NamedTuple):
    """Links, their addresses by index of link, and the routes of all tables but `local`."""

    links: list[Link]
    addresses: dict[int, list[Cidr]]
    routes: list[KernelRoute]

    def link(self, name: str) -> Link | None:
        """Return the link of that name, or None."""
        return next((link for link in self.links if link.name == name), None)

    def name(self, index: int) -> str:
        """Return the name of the link with that index, an empty string if there is none."""
        return next((link.name for link in self.links if link.ifindex == index), "")

    def main_routes(self) -> list[KernelRoute]:
        """Return the routes of the main table, IPv4 first, the less specific before the more specific."""
        main = [route for route in self.routes if route.table == RT_TABLE_MAIN]
        return sorted(main, key=lambda route: (route.dst.version, route.dst.prefixlen, str(route.dst)))


def read_namespace_state(path: str) -> NamespaceState | None:
    """Read the network namespace at `path`; None if it is gone. Raises NetlinkError, OSError."""
    try:
        with open_namespace(path) as netns:
            return namespace_state(netns)
    except (FileNotFoundError, NotANamespaceError):
        return None


def namespace_state(netns: Namespace) -> NamespaceState:
    """Read an open network namespace. Raises NetlinkError, OSError."""
    with Rtnl(netns) as rtnl:
        links = rtnl.links()
        addresses: dict[int, list[Cidr]] = {link.ifindex: [] for link in links}
        for address in rtnl.addresses(ALL_LINKS):
            addresses.setdefault(address.ifindex, []).append(address.interface)
        routes = [route for family in (AF_INET, AF_INET6) for route in rtnl.routes(family, table=None)]
    return NamespaceState(links, addresses, [route for route in routes if route.table != _RT_TABLE_LOCAL])
