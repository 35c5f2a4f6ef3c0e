"""The network namespaces of a machine that exist now: those with a name, and those of processes."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from harness.runtime.node import Node
from harness.runtime.node_snapshot import THIS_HOST
from harness.runtime.sandbox import NETNS_DIR
from netlink.addresses import ALL_LINKS
from netlink.namespace import Namespace, NotANamespaceError, entered, open_namespace
from netlink.namespace_ids import namespace_id
from netlink.rtnl import Rtnl

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
                addresses = _addresses(namespace)
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


def _addresses(namespace: Namespace) -> frozenset[str]:
    with Rtnl(namespace) as rtnl:
        rtnl.links()  # gives numbers, as above
        return frozenset(str(each.interface.ip) for each in rtnl.addresses(ALL_LINKS))


def _number(other: Namespace, *, seen_from: Namespace) -> int | None:
    with entered(seen_from):
        return namespace_id(other)
