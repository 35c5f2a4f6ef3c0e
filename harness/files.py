"""Durable files and the locks beside them."""

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import IO

__all__ = ["LockHeldError", "locked", "remove_file", "write_atomically"]

# A lock file may be removed, with the folder it guards, while somebody waits for it; each such removal costs one round.
_ROUNDS = 100

_TEMPORARY = ".tmp"


class LockHeldError(Exception):
    """Another process, or another thread, holds the lock."""


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write `content` to `path`: whoever opens it sees the old file or the new one whole, also after a power cut.

    A running executable may be replaced this way: its old file lives on, unnamed, until it ends. The new one has no
    name either until it is whole (where the file system can do that), so that a crash leaves none of it behind.
    Raises OSError.
    """
    fd = _write_unnamed(path.parent, content, mode)
    if fd is None:
        temporary = _temporary(path)
        _write_named(temporary, content, mode)
        temporary.replace(path)
    else:
        try:
            _put_in_place(fd, path)
        finally:
            os.close(fd)
    _sync_folder(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file, if it is there, and what a crash left of writing it with `write_atomically`. Raises OSError."""
    for each in (path, *path.parent.glob(f".{escape(path.name)}.*{_TEMPORARY}")):
        each.unlink(missing_ok=True)


def _write_unnamed(folder: Path, content: bytes, mode: int) -> int | None:
    """Return a file that has no name yet, open for reading only; None where the file system knows no such thing."""
    try:
        fd = os.open(folder, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in {errno.EOPNOTSUPP, errno.EISDIR}:
            return None
        raise
    with os.fdopen(fd, "wb") as stream:
        _fill(stream, content, mode)
        # Open for writing, it could not be executed (ETXTBSY) from its naming to its closing.
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)


def _write_named(path: Path, content: bytes, mode: int) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as stream:
            _fill(stream, content, mode)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _fill(stream: IO[bytes], content: bytes, mode: int) -> None:
    stream.write(content)
    stream.flush()
    os.fchmod(stream.fileno(), mode)  # whatever the umask is
    os.fsync(stream.fileno())


def _put_in_place(fd: int, path: Path) -> None:
    try:
        _name(fd, path)
    except FileExistsError:
        # A link never replaces.
        temporary = _temporary(path)
        _name(fd, temporary)
        temporary.replace(path)


def _name(fd: int, path: Path) -> None:
    """Give an unnamed file its name, as open(2) says for O_TMPFILE. Raises FileExistsError, OSError."""
    # Any src_dir_fd makes Python call linkat(2) with AT_SYMLINK_FOLLOW; its link(2) would link the symbolic link.
    os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{_TEMPORARY}")


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold flock(2) on the file `path`, made where it is missing, for the with block.

    The lock ends with the process, however it ends. The holder of an exclusive lock may remove `path` and its folder:
    those that wait start over on a new one. Raises LockHeldError when `wait` is False, OSError.
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
        except FileNotFoundError:  # the folder went between the two calls
            continue
        except FileExistsError:  # or while mkdir looked what it is that exists
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


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
