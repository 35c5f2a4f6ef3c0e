"""host-local's reservations on a node's disk: the container of each address.

`<dataDir>/<network>/<address>` holds the container ID and the interface name on one line each. Very old releases wrote
the container ID alone. Any other text is an operator's note, which keeps the address from pods.
"""

import errno
import ipaddress
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from harness.files import read_regular
from harness.libcni.networks import NetworkList
from harness.runtime.node import VAR_LIB_CNI, Node
from harness.validation.address_ranges import HOST_LOCAL, HostLocalSection
from skel.decoders import Address
from skel.environment import check_container_id
from skel.errors import CniError

_DATA_DIR = VAR_LIB_CNI / "networks"
_LONGEST = 4096
"""Bytes to read of a file; a container ID and an interface name need far less."""


class Reservation(NamedTuple):
    """A reserved address. If no attachment has it, `container_id` is empty and `note` gives the reason."""

    address: Address
    container_id: str
    ifname: str
    note: str


def reservation_folder(node: Node, network: str, data_dir: str) -> Path:
    """Return the folder of a network's reservations on `node`; `data_dir` is the section's, or empty."""
    folder = Path(data_dir) if data_dir else _DATA_DIR
    if folder.is_relative_to(VAR_LIB_CNI):
        folder = node.var_lib_cni / folder.relative_to(VAR_LIB_CNI)
    return folder / network


def reservation_folders(node: Node, networks: Iterable[NetworkList]) -> list[tuple[str, Path]]:
    """Return the names of networks with their folders: those of the usual place, and those that lists name.

    A list whose section cannot be read names none. Raises OSError.
    """
    usual = node.var_lib_cni / "networks"
    found = [(path.name, path) for path in sorted(usual.iterdir()) if path.is_dir()] if usual.is_dir() else []
    for network in networks:
        for plugin in network.plugins:
            section = next((value for key, value in plugin.raw.items() if key.lower() == "ipam"), None)
            if plugin.delegate == HOST_LOCAL and isinstance(section, dict):
                with suppress(CniError):
                    data_dir = HostLocalSection.decode(section, "ipam").data_dir
                    found.append((network.name, reservation_folder(node, network.name, data_dir)))
    return list(dict.fromkeys(found))


def read_reservations(folder: Path) -> list[Reservation]:
    """Return the reservations in a network's folder, by address; none if the folder is missing. Raises OSError."""
    try:
        paths = list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [reservation for path in paths if (reservation := _read(path)) is not None]
    return sorted(found, key=lambda each: (each.address.version, int(each.address)))


def _read(path: Path) -> Reservation | None:
    """Read one file; None if it is no reservation, or has been removed meanwhile."""
    try:
        address = ipaddress.ip_address(path.name)
    except ValueError:
        return None
    try:
        text = _content(path)
    except FileNotFoundError:
        return None
    if text is None:
        return Reservation(address, "", "", "not a regular file")
    container_id, _, ifname = text.strip().partition("\r\n")
    try:
        check_container_id(container_id)
    except CniError:
        return Reservation(address, "", "", " ".join(text.split()) or "empty file")
    return Reservation(address, container_id, ifname, "")


def _content(path: Path) -> str | None:
    """Return the text of a regular file, else None: a FIFO would block the reader, a link could mislead it."""
    try:
        return read_regular(path, _LONGEST).replace(b"\0", b"").decode(errors="replace")
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
