"""Durable files and the locks beside them."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["LockHeldError", "locked", "write_atomically"]

# A lock file may be removed, with the folder it guards, while somebody waits for it; each such removal costs one round.
_ROUNDS = 100


class LockHeldError(Exception):
    """Another process, or another thread, holds the lock."""


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write `content` to `path`: whoever opens it sees the old file or the new one whole, also after a power cut.

    A running executable may be replaced this way: its old file lives on, unnamed, until it ends. Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(stream.fileno(), mode)  # whatever the umask is
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


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
