"""Leases on disk: a file for each attachment, below a folder for each network.

Every file is written whole under a new name, then renamed. So the daemon may be killed at any point, and the next one
goes on with every lease. A lease of an earlier boot is over: its pod is gone.
"""

import os
from collections.abc import Iterator

import skel.decoders as read
from skel import Address, Cidr, CniError, Record, Route, field
from skel.environment import check_network_name
from skel.state_file import StateFiles

DATA_DIR = "/var/lib/cni/dhcp"
_SECONDS = read.integer_between(0, 0xFFFFFFFF, "a number of seconds")

Key = tuple[str, str, str]
"""An attachment: network, container ID, interface name."""


class Terms(Record):
    """An address with its gateway and routes, the server, and the times, in seconds after the request."""

    address: Cidr = field(read.cidr)
    gateway: Address | None = field(read.optional(read.address), default=None)
    routes: list[Route] = field(read.list_of(read.record(Route)), default=list)
    server: str = field(read.string, default="")
    """DHCPv4: the server's address, "" if it is unknown. DHCPv6: its DUID in hexadecimal digits."""
    server_mac: str = field(read.string, default="")
    """DHCPv4: the hardware address that the server's, or its relay's, answer came from."""
    lifetime: int = field(_SECONDS)
    t1: int = field(_SECONDS)
    """When it is renewed, by the server that granted it."""
    t2: int = field(_SECONDS)
    """When it is renewed by any server."""


class StoredLease(Record):
    """A lease: its terms, and when they were asked for, in seconds of CLOCK_BOOTTIME."""

    terms: Terms = field(read.record(Terms))
    obtained_ms: int = field(read.integer)


class StoredAttachment(Record):
    """An attachment's file."""

    boot: str = field(read.string)
    netns: str = field(read.string)
    """The path, as in CNI_NETNS."""
    device: int = field(read.integer)
    inode: int = field(read.integer)
    """Of the network namespace, which tells it from a later one at that path."""
    request: dict[str, object] = field(read.dict_of(read.raw))
    """The plugin's request, with the options of its configuration."""
    leases: list[StoredLease] = field(read.list_of(read.record(StoredLease)))


class LeaseStore:
    """The files of all attachments. Every function raises OSError."""

    def __init__(self, folder: str) -> None:
        """Note the folder; `write` makes it."""
        self.folder = folder

    def write(self, key: Key, noted: StoredAttachment) -> None:
        """Note an attachment's leases, in place of those before."""
        network, container_id, ifname = key
        self._files(network).write(container_id, ifname, noted.encode())

    def remove(self, key: Key) -> None:
        """Forget an attachment's leases, if any."""
        network, container_id, ifname = key
        self._files(network).remove(container_id, ifname)

    def has(self, key: Key) -> bool:
        """Tell whether leases of an attachment are noted."""
        network, container_id, ifname = key
        return (container_id, ifname) in self._files(network).attachments()

    def attachments(self, network: str) -> list[tuple[str, str]]:
        """Return container ID and interface name of each attachment to a network that has leases."""
        return self._files(network).attachments()

    def all(self) -> Iterator[tuple[Key, StoredAttachment | CniError]]:
        """Yield every attachment, with the error of a file that cannot be read."""
        for network in self._networks():
            files = self._files(network)
            for container_id, ifname in files.attachments():
                key = (network, container_id, ifname)
                try:
                    yield key, StoredAttachment.decode(files.read(container_id, ifname))
                except CniError as error:
                    yield key, error

    def strays(self) -> list[str]:
        """Return the paths of entries that are no leases, in the folders of networks."""
        return [path for network in self._networks() for path in self._files(network).strays()]

    def _networks(self) -> list[str]:
        try:
            with os.scandir(self.folder) as entries:
                return sorted(entry.name for entry in entries if _is_network(entry))
        except FileNotFoundError:
            return []

    def _files(self, network: str) -> StateFiles:
        check_network_name(network)
        return StateFiles(os.path.join(self.folder, network))


def _is_network(entry: os.DirEntry[str]) -> bool:
    try:
        check_network_name(entry.name)
    except CniError:
        return False
    return entry.is_dir(follow_symlinks=False)


def boot_id() -> str:
    """Return the kernel's name for this boot, "" if it does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
