"""The index of a folder of reservations: which addresses each owner has, without reading them all.

It is one file, `.owners`, with a line per owner such as `<container ID>@eth0
10.0.0.5,fd00::5`. The reference reads it when it looks for an owner, as it reads
every file, and finds that it is no reservation. What a line says is believed
only where the reservation itself confirms it.

The index is whole unless someone else added reservations. To know that without
reading, whoever leaves the folder with a whole index sets the folder's
modification time to a fixed moment, the seal: any other program that adds or
removes an entry breaks it, because the kernel then sets the time to now. So do
we before the file changes, and what a crash leaves has no seal. (Comparing a
recorded time would not do: the kernel's clock ticks every 4 ms, and a process
that waits takes the lock and adds its entry within one tick.)

Nothing is flushed, so a power failure may leave the seal on the disk without the
line that was written before it. Hence each boot has a moment of its own.

A program that writes into a file in place breaks no seal of the folder. So the index
itself has the same modification time, which a write into it breaks; and a reservation
that is not as its line says refutes the index. A folder with a seal and a broken or
refuted index, or with the seal of another boot, has a stale index: the next look-up
reads all reservations once and seals the folder anew. A reservation that was rewritten
in place for another container is found by a look-up of the container that had it, by
prevResult, or by GC.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

from lean.typing import Final

from .boot import BOOT_BITS, Boot
from .in_place import overwrite, read_regular
from .owner import Owner

__all__ = ["Index"]

_NAME: Final = ".owners"
_FIRST_SEAL: Final = 1_000_000_000
"""In seconds since 1970. With 28 bits added it is a moment of 2001 to 2010, which every file system stores exactly."""
_IN_ADDRESSES: Final = b"0123456789abcdef.:,"


class Index:
    """The index of a folder, as read once; the folder's lock is held as long as this is used."""

    def __init__(self, folder: str, boot: Boot) -> None:
        """Look whether the index is whole, or else stale: sealed once, and to be rebuilt now."""
        self._folder = folder
        self._path = os.path.join(folder, _NAME)
        # In seconds since 1970: the moment that stands for this boot; 0 if the kernel does not tell which boot it is.
        self._seal = 0 if boot.number is None else _FIRST_SEAL + boot.number
        self._lines: dict[Owner, tuple[int, int]] = {}
        self._content, self._sealed = self._read()
        modified = os.stat(folder).st_mtime_ns
        self.whole = self._sealed and modified == self._seal * 10**9
        self.stale = not self.whole and _is_seal(modified)

    def addresses(self, owner: Owner) -> list[str]:
        """Return what an owner seems to have."""
        start, end = self._line(owner)
        listed = self._content[start + len(owner.key) : end].rstrip(b"\n")
        # What a power failure leaves may be anything, but no file is opened that cannot be an address.
        return listed.decode().split(",") if listed and not listed.strip(_IN_ADDRESSES) else []

    def interfaces(self, container_id: str) -> list[Owner]:
        """Return all attachments of a container that have a line."""
        key = b"\n" + Owner(container_id, "").key.rstrip(b" ")
        content = b"\n" + self._content
        found = []
        at = content.find(key)
        while at >= 0:
            ifname = content[at + len(key) : content.find(b" ", at)]
            found.append(Owner(container_id, os.fsdecode(ifname)))
            at = content.find(key, at + 1)
        return found

    def refute(self) -> None:
        """Take note that a reservation is not as the index says."""
        self.stale = self.whole or self.stale
        self.whole = False

    def note(self, owner: Owner, addresses: Iterable[str]) -> None:
        """Write what an owner has."""
        start, end = self._line(owner)
        line = _line_of(owner, addresses)
        if self._content[start:end] != line:
            self._write(start, self._content[end:] + line)

    def rewrite(self, owners: Mapping[Owner, Iterable[str]]) -> None:
        """Make the index whole: `owners` are all, with all that they have."""
        lines = [_line_of(owner, addresses) for owner, addresses in owners.items()]
        self.whole, self.stale = True, False
        if not self._sealed or sorted(lines) != sorted(self._content.splitlines(keepends=True)):
            self._write(0, b"".join(lines))

    def seal(self) -> None:
        """Vouch for the index, if it was whole before what was changed now."""
        if self.whole and self._seal:
            # Only the folder's owner may set its times. Without the seal all works, but slower.
            with suppress(OSError):
                os.utime(self._folder, (self._seal, self._seal))

    def _line(self, owner: Owner) -> tuple[int, int]:
        """Return where an owner's line starts and ends: at the end of the index, if there is none."""
        if owner not in self._lines:
            content = self._content
            start = 0
            if not content.startswith(owner.key):
                start = content.find(b"\n" + owner.key) + 1 or len(content)
            self._lines[owner] = start, content.find(b"\n", start) + 1 or len(content)
        return self._lines[owner]

    def _read(self) -> tuple[bytes, bool]:
        """Return the file's content, and whether our last write of this boot left it so."""
        try:
            content, status = read_regular(self._path, os.O_NOFOLLOW)
        except FileNotFoundError:
            return b"", self._seal > 0
        except OSError:
            return b"", False
        return content, self._seal > 0 and status.st_mtime_ns == self._seal * 10**9

    def _write(self, start: int, content: bytes) -> None:
        self._lines.clear()
        self._content = self._content[:start] + content
        try:
            os.utime(self._folder)  # breaks the seal
            overwrite(self._path, content, start, modified=self._seal or None)
            self._sealed = self._seal > 0
        except OSError:
            self.whole = self._sealed = False  # The index is a short cut, not a reason to fail.


def _is_seal(modified: int) -> bool:
    """Tell whether a modification time, in nanoseconds, is the seal of any boot."""
    seconds, rest = divmod(modified, 10**9)
    return rest == 0 and 0 <= seconds - _FIRST_SEAL < 1 << BOOT_BITS


def _line_of(owner: Owner, addresses: Iterable[str]) -> bytes:
    listed = ",".join(sorted(set(addresses)))
    return owner.key + listed.encode() + b"\n" if listed else b""
