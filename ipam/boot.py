"""The boot in which a reservation was made: a pod of an earlier boot is gone, even if its files exist.

The reference's file format has no field for the boot. So our reservations have a mark in
the nanoseconds of their modification time, which no program reads. The mark is a constant
and a number of the boot. It does not depend on wall clocks: they are set forward and back,
and start wrong on machines without a battery. A file may lack the mark: if the reference made
it, or if the file system keeps whole seconds. Such a file is of an
earlier boot if it is older than this boot.
"""

import os
import time

from lean.contextlib import suppress
from lean.typing import Final, NamedTuple

BOOT_BITS: Final = 28
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_NS: Final = 10**9
_MARK_BITS: Final = 15
_MARK: Final = 20_117 << _MARK_BITS
"""In nanoseconds. With `_MARK_BITS` it is below a second. One of 30,517 files of other programs has it by chance."""


class Boot(NamedTuple):
    """The boot in which this process runs."""

    number: int | None
    """It has `BOOT_BITS` bits; None if the kernel does not tell which boot it is."""

    @classmethod
    def read(cls) -> "Boot":
        """Ask the kernel which boot it is."""
        try:
            with open(_BOOT_ID, "rb", buffering=0) as file:
                return cls(int(file.read(BOOT_BITS // 4), 16))
        except (OSError, ValueError):
            return cls(None)

    def mark(self, file: int | str) -> None:
        """Mark a file, given open or as a path, as made now, in this boot. A symbolic link is not followed."""
        if self.number is None:
            return
        now = time.time_ns()
        modified = now - now % _NS + _MARK + self.number % (1 << _MARK_BITS)
        with suppress(OSError):
            if isinstance(file, int):
                os.utime(file, ns=(now, modified))
            else:
                os.utime(file, ns=(now, modified), follow_symlinks=False)

    def is_after(self, path: str) -> bool:
        """Tell whether a file was made before this boot; False if that cannot be known. Raises OSError."""
        if self.number is None:
            return False
        modified = os.lstat(path).st_mtime_ns
        marked, boot = divmod(modified % _NS, 1 << _MARK_BITS)
        if marked == _MARK >> _MARK_BITS:
            return boot != self.number % (1 << _MARK_BITS)
        return modified < time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
