"""The socket that the server listens on: its own, or the one that systemd gave it."""

import errno
import fcntl
import os
import socket
import stat
from contextlib import suppress

from .peer import want_credentials

_BACKLOG = 4096
"""Launchers that may wait at once; the kernel cuts it down to net.core.somaxconn, and beyond that they block."""
_FIRST_PASSED = 3
"""SD_LISTEN_FDS_START of sd_listen_fds(3)."""


class ListeningError(Exception):
    """There is no socket to be had; the message says why."""


class Listening:
    """A listening socket that only root can connect to.

    One at a path has a lock file beside it, which belongs to the server for as long as the path does: a socket that
    nobody holds the lock for is left over, and is replaced. systemd keeps its own, so that no launcher is turned away
    between one server and the next.
    """

    def __init__(self, path: str, passed: int) -> None:
        """Take over the socket that systemd has `passed`, or listen at `path` if none was.

        Raises ListeningError, OSError.
        """
        self._lock = -1
        self._inode: tuple[int, int] | None = None
        self.is_passed = passed > 0
        if passed:
            self.socket = _passed_socket(passed)
            self.path = str(self.socket.getsockname())
        else:
            self.path = path
            self.socket = self._bind()
        want_credentials(self.socket)

    def close(self) -> None:
        """Stop listening. A path that is still ours goes, and the next server may have it."""
        if not self.is_passed:
            self.socket.shutdown(socket.SHUT_RDWR)
            # Launchers that no worker has accepted would wait for as long as a worker in a call has the socket open.
            with suppress(BlockingIOError):
                while True:
                    self.socket.accept()[0].close()
        self.socket.close()
        if self._inode is not None:
            with suppress(FileNotFoundError):
                if _inode(self.path) == self._inode:
                    os.unlink(self.path)
            self._inode = None
        self.close_lock()

    def close_lock(self) -> None:
        """Close the lock, as in a worker: it is the server's alone."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _bind(self) -> socket.socket:
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), mode=0o755, exist_ok=True)
        self._lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ListeningError(f"{self.path}: another server listens there") from None
        if _is_served(self.path):
            raise ListeningError(f"{self.path}: somebody else, such as systemd, listens there")
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(self.path).st_mode):
                raise ListeningError(f"{self.path} is there, and is no socket")
            os.unlink(self.path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        umask = os.umask(0o177)  # root's alone from its first moment
        try:
            listening.bind(self.path)
        finally:
            os.umask(umask)
        self._inode = _inode(self.path)
        listening.listen(_BACKLOG)
        return listening


def passed_sockets() -> int:
    """Return how many sockets systemd has passed to this process: the file descriptors from 3 on."""
    for_us = os.environ.get("LISTEN_PID") == str(os.getpid())
    return int(os.environ.get("LISTEN_FDS", "0")) if for_us else 0


def _passed_socket(number: int) -> socket.socket:
    if number != 1:
        raise ListeningError(f"{number} sockets from systemd; one is due")
    os.set_inheritable(_FIRST_PASSED, False)  # noqa: FBT003 -- it takes no keyword
    passed = socket.socket(fileno=_FIRST_PASSED)
    listens = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if (passed.family, passed.type, listens) != (socket.AF_UNIX, socket.SOCK_SEQPACKET, 1):
        raise ListeningError("the socket from systemd is no listening AF_UNIX socket of type SOCK_SEQPACKET")
    return passed


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.setblocking(False)  # noqa: FBT003 -- it takes no keyword
        return connection.connect_ex(path) in {0, errno.EAGAIN}  # EAGAIN: its queue is full


def _inode(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino
