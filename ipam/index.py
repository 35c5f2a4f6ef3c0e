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
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Final

from .in_place import overwrite
from .owner import Owner

__all__ = ["Index"]

_NAME: Final = ".owners"
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_FIRST_SEAL: Final = 1_000_000_000
"""In seconds since 1970. With 28 bits added it is a moment of 2001 to 2010, which every file system stores exactly."""
_SEAL_DIGITS: Final = 7
_IN_ADDRESSES: Final = b"0123456789abcdef.:,"


class Index:
    """The index of a folder, as read once; the folder's lock is held as long as this is used."""

    def __init__(self, folder: str) -> None:
        """Look whether the index is whole."""
        self._folder = folder
        self._path = os.path.join(folder, _NAME)
        self._read: bytes | None = None
        self._lines: dict[Owner, tuple[int, int]] = {}
        self.whole = _seal() > 0 and os.stat(folder).st_mtime_ns == _seal() * 10**9

    def addresses(self, owner: Owner) -> list[str]:
        """Return what an owner seems to have."""
        start, end = self._line(owner)
        listed = self._content()[start + len(owner.key) : end].rstrip(b"\n")
        # What a power failure leaves may be anything, but no file is opened that cannot be an address.
        return listed.decode().split(",") if listed and not listed.strip(_IN_ADDRESSES) else []

    def note(self, owner: Owner, addresses: Iterable[str]) -> None:
        """Write what an owner has."""
        content = self._content()
        start, end = self._line(owner)
        line = _line_of(owner, addresses)
        if content[start:end] != line:
            self._write(start, content[end:] + line)
            self._read = None

    def rewrite(self, owners: Mapping[Owner, Iterable[str]]) -> None:
        """Make the index whole: `owners` are all, with all that they have."""
        lines = [_line_of(owner, addresses) for owner, addresses in owners.items()]
        self.whole = True
        if sorted(lines) != sorted(self._content().splitlines(keepends=True)):
            self._read = b"".join(lines)
            self._write(0, self._read)

    def seal(self) -> None:
        """Vouch for the index, if it was whole before what was changed now."""
        if self.whole and _seal():
            # Only the folder's owner may set its times. Without the seal all works, but slower.
            with suppress(OSError):
                os.utime(self._folder, (_seal(), _seal()))

    def _line(self, owner: Owner) -> tuple[int, int]:
        """Return where an owner's line starts and ends: at the end of the index, if there is none."""
        if owner not in self._lines:
            content = self._content()
            start = 0
            if not content.startswith(owner.key):
                start = content.find(b"\n" + owner.key) + 1 or len(content)
            self._lines[owner] = start, content.find(b"\n", start) + 1 or len(content)
        return self._lines[owner]

    def _content(self) -> bytes:
        if self._read is None:
            try:
                with open(self._path, "rb", buffering=0) as file:
                    self._read = file.read()
            except FileNotFoundError:
                self._read = b""
            except OSError:
                self._read = b""
                self.whole = False
        return self._read

    def _write(self, start: int, content: bytes) -> None:
        self._lines.clear()
        try:
            os.utime(self._folder)  # breaks the seal
            overwrite(self._path, content, start)
        except OSError:
            self.whole = False  # The index is a short cut, not a reason to fail.


@cache
def _seal() -> int:
    """Return the moment of this boot, in seconds since 1970; 0 where the kernel does not tell which boot it is."""
    try:
        with open(_BOOT_ID, "rb", buffering=0) as file:
            return _FIRST_SEAL + int(file.read(_SEAL_DIGITS), 16)
    except (OSError, ValueError):
        return 0


def _line_of(owner: Owner, addresses: Iterable[str]) -> bytes:
    listed = ",".join(sorted(set(addresses)))
    return owner.key + listed.encode() + b"\n" if listed else b""
