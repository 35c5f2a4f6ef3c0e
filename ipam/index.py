"""The index of a folder of reservations: each owner's addresses, without reading all reservations.

It is one file, `.owners`, with a line per owner such as `<container ID>@eth0
10.0.0.5,fd00::5`. The reference reads every file to find an owner. It reads the index,
too, and finds that it is no reservation. A line counts only if the reservation itself
confirms it.

The file is a table of buckets of 4 KiB; their number is a power of two. A hash of
the container ID says which bucket has a container's lines. So a call reads one bucket
and writes it in place, for any number of lines. Newlines fill a bucket up.
When one is full, the index is written anew with buckets that are a quarter full at
most. If a container's lines fill more than a bucket (some 35 interfaces in one
network), the index is not whole.

The index is whole unless another program added reservations. The seal tells that
without reading: with a whole index, host-local sets the folder's modification time to
a fixed moment, the seal. Any other program that adds or removes an entry breaks the
seal, because the kernel then sets the time to now. host-local itself breaks the seal
before it changes the file, so after a crash the folder has no seal. (A comparison with
a recorded time is not enough: the kernel's clock ticks every 4 ms. A waiting process
takes the lock and adds its entry within one tick.)

Nothing is flushed, so a power failure may leave the seal on the disk without the
line that was written before it. Hence each boot has its own moment.

A program that writes into a file in place does not break the folder's seal. So the
index itself has the same modification time, which a write into it changes. A
reservation that differs from its line refutes the index. The index is stale if the
folder has a seal but the index was changed or refuted. It is also stale if the seal is
of another boot. The next look-up reads all reservations once and seals the folder
anew. If a reservation is rewritten in place for another container, it is found by a
look-up of its former container, by prevResult, or by GC.
"""

import os
from binascii import crc32

from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import Final, Iterable, Mapping
from skel.regular_files import open_regular, overwrite

from .reservation import BOOT_BITS, Boot, ReservationOwner

_NAME: Final = ".owners"
_BUCKET: Final = 4096
"""In bytes."""
_SPARE: Final = 4
"""A new index has this many times the bytes of its lines, or up to twice as many."""
_FIRST_SEAL: Final = 1_268_435_456
"""In seconds since 1970. With 28 bits added it is a moment of 2010 to 2018, which every file system stores exactly."""
_IN_ADDRESSES: Final = b"0123456789abcdef.:,"

_Lines = list[bytes]
"""The lines of a bucket, without their newlines."""


class Index:
    """The index of a folder; buckets are read as needed. The caller holds the folder's lock."""

    def __init__(self, folder: str, boot: Boot) -> None:
        """Read whether the index is whole, or stale: it was sealed once, and must be rebuilt now."""
        self._folder = folder
        self._path = os.path.join(folder, _NAME)
        # This boot's seal, in seconds since 1970; 0 if the kernel does not tell which boot it is.
        self._seal = 0 if boot.number is None else _FIRST_SEAL + boot.number
        self._buckets: dict[int, _Lines] = {}
        """The buckets that were read or written."""
        self._count, sealed = self._measure()
        modified = os.stat(folder).st_mtime_ns
        self.whole = sealed and modified == self._seal * 10**9
        self.stale = not self.whole and _is_seal(modified)

    def addresses(self, owner: ReservationOwner) -> list[str]:
        """Return the addresses that the index lists for an owner."""
        key = owner.key
        listed = b",".join(line[len(key) :] for line in self._bucket(key) if line.startswith(key))
        # After a power failure a line may hold anything, but only names that are addresses are opened.
        return listed.decode().split(",") if listed and not listed.strip(_IN_ADDRESSES) else []

    def interfaces(self, container_id: str) -> list[ReservationOwner]:
        """Return all attachments of a container that have a line."""
        key = ReservationOwner(container_id, "").key.rstrip(b" ")
        lines = [line[len(key) :] for line in self._bucket(key) if line.startswith(key)]
        return [ReservationOwner(container_id, os.fsdecode(line.partition(b" ")[0])) for line in lines]

    def refute(self) -> None:
        """Note that a reservation differs from its line in the index."""
        self.stale = self.whole or self.stale
        self.whole = False

    def note(self, owner: ReservationOwner, addresses: Iterable[str]) -> None:
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

    def rewrite(self, owners: Mapping[ReservationOwner, Iterable[str]]) -> None:
        """Make the index whole: `owners` has all owners, with all their addresses."""
        self.whole, self.stale = True, False
        self._write_anew([line for owner, addresses in owners.items() for line in _lines_of(owner, addresses)])

    def seal(self) -> None:
        """Set the seal, if the index was whole before this change."""
        if self.whole and self._seal:
            # Only the folder's owner may set its times. Without the seal look-ups work, but take longer.
            with suppress(OSError):
                os.utime(self._folder, (self._seal, self._seal))

    def _measure(self) -> tuple[int, bool]:
        """Return the number of buckets, and whether the file is unchanged since our last write of this boot."""
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
            # Stripped first: splitting thousands of newlines takes longer than the rest of this function.
            self._buckets[place] = [line for line in content.strip(b"\n").split(b"\n") if line]
        return self._buckets[place]

    def _write_anew(self, lines: _Lines) -> None:
        """Replace the index by `lines`, with enough buckets. All lines are then in memory, even if some do not fit."""
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
    """Tell whether a modification time, in nanoseconds, is the seal of any boot."""
    seconds, rest = divmod(modified, 10**9)
    return rest == 0 and 0 <= seconds - _FIRST_SEAL < 1 << BOOT_BITS


def _place(line: bytes, count: int) -> int:
    """Return which of `count` buckets has a container's lines; `line` is one of these lines, or the start of one."""
    return crc32(line.partition(b"@")[0]) % count


def _lines_of(owner: ReservationOwner, addresses: Iterable[str]) -> _Lines:
    listed = ",".join(sorted(set(addresses)))
    return [owner.key + listed.encode()] if listed else []


def _fits(bucket: _Lines) -> bool:
    return sum(map(len, bucket)) + len(bucket) <= _BUCKET


def _padded(bucket: _Lines) -> bytes:
    """Return a bucket in the file's format: as many of its lines as fit, and newlines."""
    content = b"".join(line + b"\n" for line in bucket)
    return content[:_BUCKET].rpartition(b"\n")[0].ljust(_BUCKET, b"\n")
