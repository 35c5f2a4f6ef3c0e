"""Bridges of pods' networks that remain on the node after the pods are deleted; `del --prune` removes them."""

import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from harness.files import naming

if TYPE_CHECKING:
    from harness.runtime.node import Node
    from harness.runtime.pod_record import PodNetwork


def existing_links(names: Iterable[str]) -> list[str]:
    """Return those of `names` that are interfaces in the calling thread's network namespace."""
    found = []
    for name in names:
        with suppress(OSError, ValueError):
            socket.if_nametoindex(name)
            found.append(name)
    return found


class LeftLinks:
    """A folder with one file per interface, named after it; each line is a gateway that pods had on the interface."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, name: str, gateways: Iterable[str]) -> None:
        """Record an interface and further gateways. Raises OSError."""
        path = self._folder / name
        self._folder.mkdir(parents=True, exist_ok=True)
        # Each call appends with one write, because pods are deleted in parallel.
        with naming(path), path.open("a") as file:
            file.writelines(f"{gateway}\n" for gateway in gateways if gateway not in _lines(path))

    def all(self) -> Mapping[str, frozenset[str]]:
        """Return the gateways of every interface, by its name. Raises OSError."""
        return {path.name: _lines(path) for path in sorted(self._folder.glob("*"))}

    def forget(self, name: str) -> None:
        """Remove the record of an interface. Raises OSError."""
        (self._folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # other records remain
            self._folder.rmdir()


def _lines(path: Path) -> frozenset[str]:
    return frozenset(path.read_text().split())


def note_left_links(node: "Node", networks: "Iterable[PodNetwork]", warn: Callable[[str], None]) -> None:
    """Record the interfaces of a deleted pod's networks that are still on the node, for a later `del --prune`.

    Inside `Node.in_use` only. `warn` gets a line for each interface that cannot be recorded.
    """
    from harness.runtime.pod_view import host_links

    for network in networks:
        for name in node.run(existing_links, host_links(network)):
            try:
                node.left_links.note(name, [str(ip.gateway) for ip in network.decoded().ips if ip.gateway])
            except OSError as error:
                warn(f"{name} is not noted for --prune: {error}")
