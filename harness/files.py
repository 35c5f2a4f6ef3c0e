"""Durable files, the locks beside them, and files that another program may have made."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from skel.regular_files import named
from skel.state_file import write_whole

_RM: Final = "/bin/rm"  # of coreutils, which is essential in Debian

# A lock file may be removed with its folder while a process waits for the lock; each such removal costs one round.
_ROUNDS = 100


class LockHeldError(Exception):
    """Another process, or another thread, holds the lock."""


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644, watched: bool = False) -> None:
    """Write `content` to `path`: every reader sees the old file or the new one whole, also after a power cut.

    A running executable may be replaced this way: its old file, without a name, lasts until it ends. With `watched`, a
    runtime that watches the folder for network lists sees the change. Raises OSError.
    """
    write_whole(str(path), content, mode=mode, durable=True, renamed=watched)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path of a file to errors of the with block that name no file, such as those of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename or error.errno is None:
            raise
        raise named(error, str(path)) from error


def open_regular(path: str | Path, *, follow: bool = False, dir_fd: int | None = None) -> int:
    """Open a file for reading that a container, or another program, may have made; return its descriptor.

    A FIFO would block for good, and to open a device may have an effect. So the file is looked at first, and only then
    opened. A link is opened only with `follow`. Raises OSError, with EINVAL for anything but a regular file.
    """
    links = 0 if follow else os.O_NOFOLLOW
    looked_at = os.open(path, os.O_PATH | links | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        if not stat.S_ISREG(os.fstat(looked_at).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        # O_NONBLOCK: a lease of its writer (fcntl(2), F_SETLEASE) would block for 45 s.
        return os.open(f"/proc/self/fd/{looked_at}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(looked_at)


def read_regular(path: str | Path, limit: int, *, follow: bool = False, dir_fd: int | None = None) -> bytes:
    """Return the first `limit` bytes of a file, opened by `open_regular`. Raises OSError."""
    with open(open_regular(path, follow=follow, dir_fd=dir_fd), "rb") as file:
        return file.read(limit)


def read_end(path: str | Path, limit: int) -> bytes:
    """Return the last `limit` bytes of a file, opened by `open_regular`. Raises OSError."""
    with open(open_regular(path), "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
        return file.read(limit)


def copy_files(source: Path, target: Path) -> None:
    """Copy a folder with its folders and regular files, also those that links lead to, to the new folder `target`.

    Anything else, and a link to nothing, is left out. `target` exists when it is complete. Raises OSError.
    """
    unfinished = target.with_name(f".{target.name}")
    if unfinished.exists():
        remove_tree(unfinished)
    _copy(source, unfinished)
    unfinished.rename(target)


def _copy(source: Path, target: Path) -> None:
    target.mkdir(parents=True, mode=0o700)
    for path in source.iterdir():
        if path.is_dir() and not path.is_symlink():
            _copy(path, target / path.name)
        elif path.is_file():
            with open(open_regular(path, follow=True), "rb") as file:
                write_atomically(target / path.name, file.read(), mode=stat.S_IMODE(os.fstat(file.fileno()).st_mode))
    target.chmod(stat.S_IMODE(source.stat().st_mode))


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that a container has put into it; links are not followed. Raises OSError.

    Python's rmtree needs a frame and an open file for each level of folders, of which a container can make more
    than there are.
    """
    from shutil import rmtree

    try:
        rmtree(folder)
    except (RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EMFILE:
            raise
        import subprocess

        removed = subprocess.run([_RM, "-rf", "--one-file-system", "--", folder], check=False, capture_output=True)
        if removed.returncode:
            message = removed.stderr.decode(errors="replace").strip()
            raise OSError(errno.ENOTEMPTY, message or "cannot be removed", str(folder)) from None


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold flock(2) on the file `path`, made if it is missing, for the with block.

    The lock ends with the process, however it ends. The holder of an exclusive lock may remove `path` and its folder:
    waiting processes start over on a new file. Raises LockHeldError when `wait` is False, OSError.
    """
    fd = _acquire(path, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    try:
        yield
    finally:
        os.close(fd)


def _acquire(path: Path, operation: int) -> int:
    for _ in range(_ROUNDS):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # the folder was removed between the two calls
            continue
        except FileExistsError:  # or while mkdir examined the existing path
            if path.parent.exists():
                raise
            continue
        try:
            fcntl.flock(fd, operation)
            if _is_still(path, fd):
                return fd
        except BlockingIOError:
            os.close(fd)
            raise LockHeldError(f"{path} is locked") from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
    raise LockHeldError(f"{path} is removed as often as it is locked")


def _is_still(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False
