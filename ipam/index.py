"""The index of a folder of reservations: which addresses each owner has, without reading them all.

It is one file, `.owners`, with a line per owner such as `<container ID>@eth0
10.0.0.5,fd00::5`. The reference reads it when it looks for an owner, as it reads
every file, and finds that it is no reservation. What a line says is believed
only where the reservation itself confirms it.

The file is a table of buckets of 4 KiB; their number is a power of two. A hash of
the container ID says which bucket has the lines of a container, so a call reads one
bucket and writes it in place, however many lines there are. Newlines fill a bucket up.
When one is full, the index is written anew with buckets that are a quarter full at
most. A container whose lines fill more than a bucket (some 35 interfaces in one
network) keeps the index from being whole.

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
from binascii import crc32
from collections.abc import Iterable, Mapping
from contextlib import suppress

from lean.typing import Final

from .boot import BOOT_BITS, Boot
from .in_place import open_regular, overwrite
from .owner import Owner

__all__ = ["Index"]

_NAME: Final = ".owners"
_BUCKET: Final = 4096
"""In bytes."""
_SPARE: Final = 4
"""A new index has this many times the bytes of its lines, or up to twice as many."""
_FIRST_SEAL: Final = 1_000_000_000 + (1 << BOOT_BITS)
"""In seconds since 1970. With 28 bits added it is a moment of 2010 to 2018, which every file system stores exactly.

The seals of the index before it had buckets are the 28 bits below: such an index is stale.
"""
_IN_ADDRESSES: Final = b"0123456789abcdef.:,"

_Lines = list[bytes]
"""Those of a bucket, without their newlines."""


class Index:
    """The index of a folder, of which buckets are read as needed; the folder's lock is held as long as this is used."""

    def __init__(self, folder: str, boot: Boot) -> None:
        """Look whether the index is whole, or else stale: sealed once, and to be rebuilt now."""
        self._folder = folder
        self._path = os.path.join(folder, _NAME)
        # In seconds since 1970: the moment that stands for this boot; 0 if the kernel does not tell which boot it is.
        self._seal = 0 if boot.number is None else _FIRST_SEAL + boot.number
        self._buckets: dict[int, _Lines] = {}
        """The buckets that were read or written."""
        self._count, sealed = self._measure()
        modified = os.stat(folder).st_mtime_ns
        self.whole = sealed and modified == self._seal * 10**9
        self.stale = not self.whole and _is_seal(modified)

    def addresses(self, owner: Owner) -> list[str]:
        """Return the addresses that the index lists for an owner."""
        key = owner.key
        listed = b",".join(line[len(key) :] for line in self._bucket(key) if line.startswith(key))
        # After a power failure a line may hold anything, but only names that are addresses are opened.
        return listed.decode().split(",") if listed and not listed.strip(_IN_ADDRESSES) else []

    def interfaces(self, container_id: str) -> list[Owner]:
        """Return all attachments of a container that have a line."""
        key = Owner(container_id, "").key.rstrip(b" ")
        lines = [line[len(key) :] for line in self._bucket(key) if line.startswith(key)]
        return [Owner(container_id, os.fsdecode(line.partition(b" ")[0])) for line in lines]

    def refute(self) -> None:
        """Take note that a reservation is not as the index says."""
        self.stale = self.whole or self.stale
        self.whole = False

    def note(self, owner: Owner, addresses: Iterable[str]) -> None:
        """Write the addresses of an owner."""
        key = owner.key
        bucket = self._bucket(key)
        lines = [line for line in bucket if not line.startswith(key)] + _lines_of(owner, addresses)
        if lines == bucket:
            return
        bucket[:] = lines
        if self._count and _fits(bucket):
            self._write(_padded(bucket), _place(key, self._count) * _BUCKET)
        else:
            known = [line for place in range(self._count) for line in self._read(place)]
            self._write_anew(known or lines)

    def rewrite(self, owners: Mapping[Owner, Iterable[str]]) -> None:
        """Make the index whole: `owners` are all, with all that they have."""
        self.whole, self.stale = True, False
        self._write_anew([line for owner, addresses in owners.items() for line in _lines_of(owner, addresses)])

    def seal(self) -> None:
        """Vouch for the index, if it was whole before this change."""
        if self.whole and self._seal:
            # Only the folder's owner may set its times. Without the seal all works, but slower.
            with suppress(OSError):
                os.utime(self._folder, (self._seal, self._seal))

    def _measure(self) -> tuple[int, bool]:
        """Return how many buckets the file has, and whether our last write of this boot left it so."""
        try:
            status = os.lstat(self._path)
        except OSError:
            return 0, False
        count, rest = divmod(status.st_size, _BUCKET)
        if rest or count.bit_count() != 1:
            return 0, False
        return count, self._seal > 0 and status.st_mtime_ns == self._seal * 10**9

    def _bucket(self, key: bytes) -> _Lines:
        """Return the lines of the bucket of `key`."""
        return self._read(_place(key, self._count)) if self._count else []

    def _read(self, place: int) -> _Lines:
        if place not in self._buckets:
            content = b""
            try:
                file, _ = open_regular(self._path, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    content = os.pread(file, _BUCKET, place * _BUCKET)
                finally:
                    os.close(file)
            except OSError:
                self.refute()
            # Stripped first: to split thousands of newlines takes longer than all else here.
            self._buckets[place] = [line for line in content.strip(b"\n").split(b"\n") if line]
        return self._buckets[place]

    def _write_anew(self, lines: _Lines) -> None:
        """Make `lines` all of the index, with the buckets they need. All are known then, even if some do not fit."""
        size = sum(map(len, lines))
        self._count = 1
        while self._count * _BUCKET < size * _SPARE:
            self._count *= 2
        self._buckets = {place: [] for place in range(self._count)}
        for line in lines:
            self._bucket(line).append(line)
        buckets = self._buckets.values()
        self.whole = self.whole and all(map(_fits, buckets))
        self._write(b"".join(map(_padded, buckets)))

    def _write(self, content: bytes, start: int | None = None) -> None:
        try:
            os.utime(self._folder)  # breaks the seal
            overwrite(self._path, content, start, modified=self._seal or None)
        except OSError:
            self.whole = False  # The index is a short cut, not a reason to fail.


def _is_seal(modified: int) -> bool:
    """Tell whether a modification time, in nanoseconds, is the seal of any boot, with buckets or without."""
    seconds, rest = divmod(modified, 10**9)
    return rest == 0 and -1 << BOOT_BITS <= seconds - _FIRST_SEAL < 1 << BOOT_BITS


def _place(line: bytes, count: int) -> int:
    """Return which of `count` buckets has the lines of a container; `line` is one of them, or the start of one."""
    return crc32(line.partition(b"@")[0]) % count


def _lines_of(owner: Owner, addresses: Iterable[str]) -> _Lines:
    listed = ",".join(sorted(set(addresses)))
    return [owner.key + listed.encode()] if listed else []


def _fits(bucket: _Lines) -> bool:
    return sum(map(len, bucket)) + len(bucket) <= _BUCKET


def _padded(bucket: _Lines) -> bytes:
    """Return a bucket as it is written: those of its first lines that fit, and newlines."""
    content = b"".join(line + b"\n" for line in bucket)
    return content[:_BUCKET].rpartition(b"\n")[0].ljust(_BUCKET, b"\n")
