r"""Reservations on disk: the reference plugin's own format, read and written both ways.

A network's folder holds, as containernetworking/plugins' disk backend has it:

- `<address>`: who has it, as `<container ID>\r\n<interface>`; very old
  releases wrote the container ID alone, and such an entry is still honoured;
- `last_reserved_ip.<n>`: the address handed out last of range set n;
- `lock`: held with flock(2) by whoever reads or changes the rest.

The reference reads every file to find an owner's addresses. So that ADD and DEL
read a bounded number, the folder also holds an index that the reference does
not notice: a symbolic link per owner, `.owner@<container ID>@<interface>`, whose
target lists the addresses, such as `10.1.0.5,fd00::5`. The reference cannot open
a target of several; through a target of one it sees that very reservation, and
removes the link with it. What a link says is believed only where the reservation
itself confirms it.

The index is whole unless someone else added entries. To know that without
reading, whoever leaves the folder with a whole index sets the folder's
modification time to a fixed moment, the seal: any other program that adds or
removes an entry breaks it, because the kernel then sets the time to now, and so
does a crash half-way. Without the seal, a look-up that finds nothing reads all
files once, as the reference does each time, and seals. An ADD does so in a small
folder only: in a large one that someone else wrote it may, until then, not see
that its attachment has an address already. (Comparing a recorded time would not
do: the kernel's clock ticks every 4 ms, and a process that waits takes the lock
and adds its entry within one tick.)

A reservation is flushed to the disk before it gets its name, so it is there as a
whole or not at all; one file serves all addresses of an ADD. Nothing else is
flushed. A power failure that takes back the last reservations has taken the pods
that they were for, and losing `last_reserved_ip` only starts the round again.
"""

import fcntl
import ipaddress
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from skel import Address

from .draft import TEMPORARY, Draft, replace
from .owner import LINK_PREFIX, Owner

__all__ = ["Store", "Take"]

Take = Callable[[int, str], bool]
"""Reserves an address as one of the range set with that index; False when it is taken."""

_SEAL: Final = 1_000_000_000
"""In seconds since 1970, which every file system can store exactly: a moment of 2001."""
_SMALL: Final = 64
"""Reservations that an ADD reads at most, when the index is not whole."""
_TARGET_MAX: Final = 1000
"""Bytes in the target of a symbolic link that every file system can store (XFS: 1023)."""
_MANY: Final = "*"
"""The target for an owner with more addresses than fit."""


class Store:
    """The reservations of one network; what reads or changes who has what wants the lock.

    Every method raises OSError as the file system does.
    """

    def __init__(self, data_dir: str, network: str) -> None:
        """Name the folder; nothing is made before `create`."""
        self.folder = os.path.join(data_dir, network)
        self._sealed = False

    def exists(self) -> bool:
        """Tell whether the network has a folder, and so may have reservations."""
        return os.path.isdir(self.folder)

    def create(self) -> None:
        """Make the folder, if it is not there."""
        os.makedirs(self.folder, 0o755, exist_ok=True)

    def obstacle(self) -> str:
        """Return why a reservation could not be written, or an empty string."""
        place = os.path.abspath(self.folder)
        while not os.path.lexists(place):
            place = os.path.dirname(place)
        if not os.path.isdir(place):
            return f"{place} is not a directory"
        return "" if os.access(place, os.W_OK | os.X_OK) else f"{place} is not writable"

    def entries(self) -> list[str]:
        """Return the names of all reservations, and of few files more; this opens none and reads no name."""
        return [name for name in os.listdir(self.folder) if not name.startswith(".")]

    def reserved(self) -> list[str]:
        """Return all addresses that are taken, by whomever; this opens no file."""
        return [name for name in self.entries() if _is_address(name)]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock, after waiting for whoever has it."""
        lock = os.open(self._path("lock"), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o750)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._sealed = os.stat(self.folder).st_mtime_ns == _SEAL * 10**9
            yield
        finally:
            os.close(lock)

    def owner(self, address: str) -> Owner | None:
        """Return who has `address`, or None when it is free."""
        content = self._content(address)
        return None if content is None else Owner.parse(content)

    def find(
        self, container_id: str, ifname: str, also: Iterable[str] = (), *, enough: int = 1
    ) -> tuple[Owner, list[str]]:
        """Return an attachment's addresses, and the owner that they are noted for.

        That is the attachment, or else its container, which is all that very old
        entries name. `also` are addresses to look at besides those of the index.
        Where the index is not whole, it does for `enough` addresses; with fewer, all
        reservations are read. (The reference lets go of the lock between the
        addresses of an ADD, so the index may have been made with a part of them.)
        """
        owners = (Owner(container_id, ifname), Owner(container_id, ""))
        if not self._sealed and len(self.entries()) <= _SMALL:
            self.rebuild_index()
        found = self._find(owners, also)
        if len(found[1]) < enough and not self._sealed:
            self.rebuild_index()
            found = self._find(owners, also)
        return found

    def last_reserved(self, range_set: int) -> Address | None:
        """Return the address handed out last of a range set, or None where nothing usable is noted."""
        try:
            return ipaddress.ip_address((self._content(f"last_reserved_ip.{range_set}") or b"").decode())
        except ValueError:
            return None

    def draft(self, owner: Owner) -> Draft:
        """Write an owner's reservation to the disk; flushing takes longest, so this wants no lock."""
        return Draft(self.folder, owner.content)

    @contextmanager
    def reserving(self, owner: Owner, draft: Draft) -> Iterator[Take]:
        """Reserve addresses for an owner; all that were taken are free again if the body raises."""
        taken: dict[int, str] = {}

        def take(range_set: int, address: str) -> bool:
            if draft.link(address):
                taken[range_set] = address
            return range_set in taken

        try:
            yield take
            for range_set, address in taken.items():
                replace(self.folder, f"last_reserved_ip.{range_set}", address.encode())
            self._write_link(owner.link, [*self._linked(owner), *taken.values()])
        except BaseException:
            for address in taken.values():
                self._remove(address)
            raise
        finally:
            self._remove(TEMPORARY)
            self._seal()

    def release(self, owner: Owner, addresses: Iterable[str]) -> None:
        """Free addresses of `owner`: all that it has."""
        for address in addresses:
            self._remove(address)
        self._remove(owner.link)
        self._seal()

    def rebuild_index(self) -> None:
        """Read all reservations and make the index whole; what a crash left is removed."""
        wanted: dict[str, list[str]] = {}
        for address in self.reserved():
            # As for the reference, what cannot be read is taken, by nobody we know.
            with suppress(OSError):
                owner = self.owner(address)
                if owner is not None and owner.is_attachment:
                    wanted.setdefault(owner.link, []).append(address)
        for name in os.listdir(self.folder):
            if name == TEMPORARY or (name.startswith(LINK_PREFIX) and name not in wanted):
                self._remove(name)
        for link, addresses in wanted.items():
            if self._target(link) != _target(addresses):
                self._write_link(link, addresses)
        self._sealed = True
        self._seal()

    def _find(self, owners: Iterable[Owner], also: Iterable[str]) -> tuple[Owner, list[str]]:
        first, *others = owners
        for owner in (first, *others):
            believed = dict.fromkeys([*self._linked(owner), *also])
            if found := [address for address in believed if self.owner(address) == owner]:
                return owner, found
        return first, []

    def _linked(self, owner: Owner) -> list[str]:
        target = self._target(owner.link)
        if target == _MANY:
            return self.reserved()
        return target.split(",") if target else []

    def _target(self, link: str) -> str:
        try:
            return os.readlink(self._path(link))
        except FileNotFoundError:
            return ""

    def _write_link(self, link: str, addresses: Iterable[str]) -> None:
        self._remove(link)
        os.symlink(_target(addresses), self._path(link))

    def _seal(self) -> None:
        """Vouch for the index, if it was whole before this change."""
        if self._sealed:
            # Only the folder's owner may set its times. Without the seal all works, but slower.
            with suppress(PermissionError):
                os.utime(self.folder, (_SEAL, _SEAL))

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _content(self, name: str) -> bytes | None:
        try:
            with open(self._path(name), "rb", buffering=0) as file:
                return file.read()
        except (FileNotFoundError, IsADirectoryError):
            return None

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path(name))


def _target(addresses: Iterable[str]) -> str:
    target = ",".join(sorted(set(addresses)))
    return target if len(target) <= _TARGET_MAX else _MANY


def _is_address(name: str) -> bool:
    try:
        return str(ipaddress.ip_address(name)) == name
    except ValueError:
        return False
