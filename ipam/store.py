r"""Reservations on disk in the reference plugin's format: each plugin reads the other's files.

A network's folder has the files of containernetworking/plugins' disk backend:

- `<address>`: its owner, as `<container ID>\r\n<interface>`; very old
  releases wrote the container ID alone, and such an entry is still honoured;
- `last_reserved_ip.<n>`: the last allocated address of range set n. It is a hint:
  if it is unusable, the search begins at the first address;
- `lock`: held with flock(2) while the other files are read or changed.

The reference reads every file to find an owner's addresses. The folder also has an
index (see `ipam.index`), so that ADD and DEL read a bounded number of files. If the
index is not whole, a look-up that finds nothing reads all files once, as the
reference does each time. An ADD does so in a small folder only. In another program's
large folder, it may not see that its attachment already has an address, until the
index is whole.

Making files is most of the disk work of an ADD. So it makes only the reservations,
and writes all other files in place.

Our reservation has its content before it gets its name, under the lock. The reference
writes its reservations under the lock. So if a reservation with the mode of both is
empty or all zeros, a crash of the reference or a power failure left it. It is removed;
`touch` makes another mode. Nothing is flushed, because that takes milliseconds on a
busy disk. A power failure that loses reservations has also ended their pods.
"""

import ipaddress
import os
import stat
from itertools import islice

from fast_stdlib.contextlib import contextmanager, suppress
from fast_stdlib.typing import Callable, Collection, Container, Final, Iterable, Iterator
from skel import Address, Interruption
from skel.regular_files import NotRegularError, open_regular, overwrite, read_regular

from .index import Index
from .reservation import MODE, Boot, ReservationOwner, make_file

Take = Callable[[int, str], bool]
"""Reserves an address of the range set with that index; returns False if it is taken."""

_SMALL: Final = 64
"""If the index is not whole, an ADD reads all reservations of a folder with at most this many names."""


class Store:
    """The reservations of one network. Methods that read or change owners need the lock.

    Every method raises the file system's OSError.
    """

    def __init__(self, data_dir: str, network: str) -> None:
        """Set the folder's path; only `create` makes it."""
        self.folder = os.path.join(data_dir, network)
        self._boot = Boot.read()
        self._index: Index

    def exists(self) -> bool:
        """Tell whether the network has a folder, and so may have reservations."""
        return os.path.isdir(self.folder)

    def create(self) -> None:
        """Make the folder and missing parent folders. Only their owner may write there, with any umask."""
        missing = []
        place = self.folder
        while place and not os.path.isdir(place):
            missing.append(place)
            place = os.path.dirname(place)
        for place in reversed(missing):
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(place, 0o755)  # os.makedirs sets the mode of the last folder only

    def obstacle(self) -> str:
        """Return why a reservation could not be written, or an empty string."""
        place = self._nearest()
        if not os.path.isdir(place):
            return f"{place} is not a directory"
        if not os.access(place, os.W_OK | os.X_OK):
            return f"{place} is not writable"
        lock = self._path("lock")
        is_regular = not os.path.lexists(lock) or stat.S_ISREG(os.lstat(lock).st_mode)
        return "" if is_regular else f"{lock} is not a regular file"

    def shortage(self) -> str:
        """Return the resource that the folder's file system lacks (space, inodes), or an empty string."""
        place = self._nearest()
        left = os.statvfs(place)
        if left.f_blocks and not left.f_bfree:
            return f"no space is left on the file system of {place}"
        # File systems that make inodes as they need them count none.
        return f"no inode is left on the file system of {place}" if left.f_files and not left.f_ffree else ""

    def entries(self) -> list[str]:
        """Return the names of all reservations and of a few other files, unparsed; this opens no file."""
        return [name for name in os.listdir(self.folder) if not name.startswith(".")]

    def reserved(self) -> list[str]:
        """Return all addresses that any owner has; this opens no file."""
        return [name for name in self.entries() if _is_address(name)]

    @contextmanager
    def locked(self, interruption: Interruption) -> Iterator[None]:
        """Hold the folder's lock, after waiting for its holder; the call's `interruption` may end the wait."""
        lock, _ = open_regular(self._path("lock"), os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o750)
        try:
            interruption.lock(lock)
            self._index = Index(self.folder, self._boot)
            yield
        finally:
            os.close(lock)

    def owner(self, address: str) -> ReservationOwner | None:
        """Return the owner of `address`, or None if it is free."""
        content = self._content(address)
        return None if content is None else ReservationOwner.parse(content)

    def find(
        self, container_id: str, ifname: str, also: Iterable[str] = (), *, enough: int = 1
    ) -> tuple[ReservationOwner, list[str]]:
        """Return an attachment's addresses, and the owner that they are noted for.

        The owner is the attachment. In very old entries it is the container alone.
        `also` are further addresses to read besides the index's. If the index is not
        whole, it is still trusted for `enough` addresses; with fewer, all reservations
        are read. (The reference releases the lock between the addresses of an ADD, so
        the index may have been made with a part of them.)
        """
        owners = (ReservationOwner(container_id, ifname), ReservationOwner(container_id, ""))
        if self._index.stale or (not self._index.whole and self._is_small()):
            self.rebuild_index()
        found = self._find(owners, also)
        if self._index.stale or (len(found[1]) < enough and not self._index.whole):
            self.rebuild_index()
            found = self._find(owners, also)
        return found

    def is_of_earlier_boot(self, address: str) -> bool:
        """Tell whether a reservation was made before this boot."""
        return self._boot.is_after(self._path(address))

    def last_reserved(self, range_set: int) -> Address | None:
        """Return the last allocated address of a range set, or None if no usable address is noted."""
        try:
            return ipaddress.ip_address((self._content(f"last_reserved_ip.{range_set}") or b"").decode())
        except ValueError:
            return None

    @contextmanager
    def reserving(self, owner: ReservationOwner, earlier: Container[str] = ()) -> Iterator[Take]:
        """Reserve addresses for an owner; if the body raises, all of them are freed.

        `earlier` are addresses that the owner has from an earlier boot. It may take them again.
        """
        taken: dict[int, str] = {}

        def take(range_set: int, address: str) -> bool:
            taken[range_set] = address  # before the reservation: a signal may come as link(2) returns
            try:
                make_file(self._path(address), owner.content, self._boot.mark)
            except FileExistsError:
                if address not in earlier:
                    del taken[range_set]
                    return False
                self._boot.mark(self._path(address))
            return True

        try:
            yield take
            for range_set, address in taken.items():
                overwrite(self._path(f"last_reserved_ip.{range_set}"), address.encode())
            self._index.note(owner, [*self._index.addresses(owner), *taken.values()])
        except BaseException:
            for address in taken.values():
                if self.owner(address) == owner:
                    self.free(address)
            self._index.note(owner, [known for known in self._index.addresses(owner) if known not in taken.values()])
            self._index.seal()
            raise
        self._index.seal()  # never in a `finally`: if the lines above end early, the index is not whole

    def release(self, owner: ReservationOwner, addresses: Collection[str]) -> None:
        """Free all addresses of `owner`, as `find` returned them; without addresses, nothing is written."""
        if not addresses:
            return
        for address in addresses:
            self.free(address)
        self._index.note(owner, [])
        self._index.seal()

    def free(self, address: str) -> None:
        """Free an address without changing the index, which must be rebuilt."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(address))

    def rebuild_index(self) -> None:
        """Read all reservations and make the index whole; remove empty files of a crash."""
        owners: dict[ReservationOwner, list[str]] = {}
        for address in self.reserved():
            # As for the reference, an address whose file cannot be read is taken, by an unknown owner.
            with suppress(OSError):
                owner = self.owner(address)
                if owner is None:
                    continue
                if owner.is_attachment:
                    owners.setdefault(owner, []).append(address)
                elif self._is_abandoned(address):
                    self.free(address)
        self._index.rewrite(owners)
        self._index.seal()

    def _is_small(self) -> bool:
        # Listing tens of thousands takes 20 ms.
        with os.scandir(self.folder) as names:
            return len(list(islice(names, _SMALL + 1))) <= _SMALL

    def _find(self, owners: Iterable[ReservationOwner], also: Iterable[str]) -> tuple[ReservationOwner, list[str]]:
        first, *others = owners
        for owner in (first, *others):
            if found := self._confirmed(owner, also):
                return owner, found
        if self._index.whole:
            for owner in self._index.interfaces(first.container_id):
                self._confirmed(owner)
        return first, []

    def _confirmed(self, owner: ReservationOwner, also: Iterable[str] = ()) -> list[str]:
        """Return the addresses of the index and of `also` whose files name `owner`; any other refutes the index."""
        listed = self._index.addresses(owner)
        found = [address for address in dict.fromkeys([*listed, *also]) if self.owner(address) == owner]
        if not set(listed) <= set(found):
            self._index.refute()
        return found

    def _is_abandoned(self, address: str) -> bool:
        blank = not (self._content(address) or b"").strip(b"\0")
        return blank and os.lstat(self._path(address)).st_mode == stat.S_IFREG | MODE

    def _nearest(self) -> str:
        """Return the folder, or the first above it that exists."""
        place = os.path.abspath(self.folder)
        while not os.path.lexists(place):
            place = os.path.dirname(place)
        return place

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _content(self, name: str) -> bytes | None:
        try:
            return read_regular(self._path(name))[0]
        except (FileNotFoundError, NotRegularError):
            return None


def _is_address(name: str) -> bool:
    try:
        return str(ipaddress.ip_address(name)) == name
    except ValueError:
        return False
