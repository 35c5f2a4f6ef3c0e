"""The network namespaces that exist now, with a name or of processes; their links, addresses and routes."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from socket import AF_INET, AF_INET6
from typing import Final, NamedTuple

from harness.runtime.node import Node
from harness.runtime.node_snapshot import THIS_HOST
from harness.runtime.sandbox import NETNS_DIR
from netlink.addresses import ALL_LINKS
from netlink.link import Link
from netlink.namespace import Namespace, NotANamespaceError, entered, open_namespace
from netlink.namespace_ids import namespace_id
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


_PROC: Final = Path("/proc")


class LiveNamespace(NamedTuple):
    """A network namespace, and the addresses of its links without prefix lengths."""

    name: str
    """Its name, or the command and the ID of a process in it."""
    addresses: frozenset[str]
    number: int | None
    """The node's number for it (ip-netns(8), "nsid"), which it has if a link of the node leads to it."""


def live_namespaces(node: Node) -> list[LiveNamespace]:
    """Return every namespace of this machine but the node's own, for this host.

    For a named node they are those that its links lead to, or whose links lead to it: other nodes of the machine may
    have the same addresses. Raises NetlinkError, OSError.
    """
    found = []
    with open_namespace(node.netns or THIS_HOST) as here:
        with Rtnl(here) as rtnl:
            rtnl.links()  # gives numbers to the namespaces at their other ends
        seen = {here.identity}
        for name, path in named_namespaces():
            with suppress(FileNotFoundError, ProcessLookupError, NotANamespaceError), open_namespace(path) as namespace:
                if namespace.identity in seen:
                    continue
                seen.add(namespace.identity)
                with Rtnl(namespace) as rtnl:
                    rtnl.links()  # gives numbers, as above
                    addresses = frozenset(str(each.interface.ip) for each in rtnl.addresses(ALL_LINKS))
                number = _number(namespace, seen_from=here)
                if node.netns is None or number is not None or _number(here, seen_from=namespace) is not None:
                    found.append(LiveNamespace(name, addresses, number))
    return found


def named_namespaces() -> Iterator[tuple[str, str]]:
    """Yield names and paths of network namespaces: those with a name, then those of processes, once each."""
    with suppress(OSError):
        yield from ((path.name, str(path)) for path in sorted(NETNS_DIR.iterdir()))
    seen: set[int] = set()
    for process in sorted(_PROC.glob("[0-9]*"), key=lambda path: int(path.name)):
        path = process / "ns" / "net"
        with suppress(OSError):
            inode = path.stat().st_ino
            if inode not in seen:
                seen.add(inode)
                command = (process / "comm").read_text(errors="replace").strip().replace("/", "_")
                yield f"{command} [{process.name}]", os.fspath(path)


def _number(other: Namespace, *, seen_from: Namespace) -> int | None:
    with entered(seen_from):
        return namespace_id(other)
