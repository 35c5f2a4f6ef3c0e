"""A reservation: its owner, in the format of its file and of the index, the making of its file, and its boot.

A pod of an earlier boot is gone, even if its files exist. The reference's file format has no field for the boot. So our
reservations have a mark in the nanoseconds of their modification time, which no program reads. The mark is a constant
and a number of the boot. It does not depend on wall clocks: they are set forward and back, and start wrong on machines
without a battery. A file may lack the mark: if the reference made it, or if the file system keeps whole seconds. Such a
file is of an earlier boot if it is older than this boot.
"""

import errno
import os
import time

from fast_stdlib.contextlib import suppress
from fast_stdlib.typing import Callable, Final, NamedTuple
from skel import CniError
from skel.environment import check_container_id, check_ifname
from skel.regular_files import named, write_all

# The format of containerd, CRI-O, Docker and Podman.
_GENERATED_ID_LENGTH = 64
_HEX = frozenset("0123456789abcdef")

MODE: Final = 0o600
_NO_LATER_NAME: Final = {errno.ENOENT, errno.EPERM, errno.EOPNOTSUPP}
"""Errors of linkat(2) without /proc, and on file systems without links."""

BOOT_BITS: Final = 28
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_NS: Final = 10**9
_MARK_BITS: Final = 15
_MARK: Final = 20_117 << _MARK_BITS
"""In nanoseconds. With `_MARK_BITS` it is below a second. One of 30,517 files of other programs has it by chance."""


class ReservationOwner(NamedTuple):
    """An attachment; `ifname` is empty if the entry of a very old release names the container alone."""

    container_id: str
    ifname: str

    @classmethod
    def parse(cls, content: bytes) -> "ReservationOwner":
        """Read a reservation's content; white space around it does not count."""
        container_id, _, ifname = os.fsdecode(content.strip()).partition("\r\n")
        return cls(container_id, ifname)

    @property
    def content(self) -> bytes:
        """The content of the reservation file."""
        return os.fsencode(f"{self.container_id}\r\n{self.ifname}")

    @property
    def is_attachment(self) -> bool:
        """Whether a runtime can have set these names."""
        try:
            check_container_id(self.container_id)
            if self.ifname:
                check_ifname(self.ifname)
        except CniError:
            return False
        return True

    @property
    def may_be_note(self) -> bool:
        """Whether an operator can have written this to keep an address: words, not a runtime's container ID."""
        is_generated = len(self.container_id) == _GENERATED_ID_LENGTH and _HEX.issuperset(self.container_id)
        return not self.is_attachment or not (self.ifname or is_generated)

    @property
    def key(self) -> bytes:
        """The start of its line in the index: unambiguous, because no container ID has an @."""
        return os.fsencode(f"{self.container_id}@{self.ifname} ")


def make_file(path: str, content: bytes, mark: Callable[[int], None]) -> None:
    """Make a file; `mark` gets its descriptor before the file has its name.

    Raises FileExistsError if anything has that name, and OSError, which names `path`.
    """
    if os.path.lexists(path):  # link(2) would take ten times as long to fail
        raise FileExistsError
    try:
        file = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, MODE)
    except OSError:
        _make_by_name(path, content, mark)
        return
    try:
        write_all(file, content)
        mark(file)
        # Python calls linkat(2), which follows the link, only with src_dir_fd.
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=file, follow_symlinks=True)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LATER_NAME:
            raise named(error, path) from error
        _make_by_name(path, content, mark)
    finally:
        os.close(file)


def _make_by_name(path: str, content: bytes, mark: Callable[[int], None]) -> None:
    """Make the file on a file system that lacks O_TMPFILE (open(2)), or cannot name such a file later."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        try:
            write_all(file, content)
            mark(file)
        except OSError as error:
            raise named(error, path) from error
        finally:
            os.close(file)
    except BaseException:
        os.unlink(path)
        raise


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
