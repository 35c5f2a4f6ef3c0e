"""Network namespaces: open, enter, make and remove them. No pyroute2, no processes.

Only the calling thread is ever moved, so a multi-threaded program may work in several namespaces at once.
"""

import errno
import fcntl
import os
import stat
import struct
import sys

from fast_stdlib import syscalls
from fast_stdlib.contextlib import contextmanager
from fast_stdlib.typing import TYPE_CHECKING, Callable, Iterator, Self

if TYPE_CHECKING:
    from types import TracebackType

# include/uapi/linux/nsfs.h and sockios.h
_NS_GET_NSTYPE = 0xB703
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_IFREQ = struct.Struct("16sh22x")

_SO_NETNS_COOKIE = 71  # include/uapi/asm-generic/socket.h

_CURRENT = "/proc/thread-self/ns/net"
# More mounts than this on one file are a loop, not stacked namespaces.
_STACKED_MOUNTS = 16


class Closing:
    """To be closed, or used in a with statement."""

    __slots__ = ()

    def close(self) -> None:
        """Close; a second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.close()


class NotANamespaceError(OSError):
    """The path exists but is not a network namespace."""


class Namespace(Closing):
    """An open network namespace; it stays alive as long as this is open, whatever becomes of its path."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        """Take over `fd`, an open file descriptor of a network namespace."""
        self.path = path
        self.fd = fd

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode number: equal exactly when two open namespaces are the same one."""
        status = os.fstat(self.fd)
        return status.st_dev, status.st_ino

    def close(self) -> None:
        """Close the file descriptor; a second call does nothing."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def __del__(self) -> None:
        """Close if it was left open."""
        self.close()

    def __repr__(self) -> str:
        """Show the path."""
        return f"Namespace({self.path!r})"


def open_namespace(path: str) -> Namespace:
    """Open the network namespace at `path` (/run/netns/NAME, /proc/PID/ns/net).

    Raises FileNotFoundError, NotANamespaceError if it is another kind of file, and OSError.
    """
    # O_NONBLOCK: a FIFO put there by mistake must not hang the caller.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not _is_network_namespace(fd):
        os.close(fd)
        raise NotANamespaceError(errno.EINVAL, "not a network namespace", path)
    return Namespace(path, fd)


def current_namespace() -> Namespace:
    """Open the network namespace that the calling thread is in."""
    return Namespace(_CURRENT, os.open(_CURRENT, os.O_RDONLY | os.O_CLOEXEC))


@contextmanager
def entered(namespace: Namespace) -> Iterator[None]:
    """Move the calling thread into `namespace` for the with block, and back.

    Threads started inside the block begin in `namespace` and stay there. Raises OSError (EPERM without
    CAP_SYS_ADMIN).
    """
    with current_namespace() as before:
        syscalls.setns(namespace.fd, syscalls.CLONE_NEWNET)
        try:
            yield
        finally:
            syscalls.setns(before.fd, syscalls.CLONE_NEWNET)


def namespace_cookie(path: str) -> int:
    """Return the number that no other network namespace has until the machine's restart; 0 before Linux 5.14.

    Raises as `open_namespace` does, OSError.
    """
    import socket

    with open_namespace(path) as namespace, entered(namespace), socket.socket(socket.AF_UNIX) as inside:
        try:
            return int.from_bytes(inside.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), sys.byteorder)
        except OSError:
            return 0


def create_namespace(path: str) -> None:
    """Make a network namespace with `lo` up, held by a bind mount on the new file `path`.

    The folder is made a shared mount, as ip-netns(8) does, so that the namespace is seen (and can be removed) from
    every mount namespace of the machine. Raises FileExistsError, and OSError having left nothing at `path`.
    """
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, mode=0o755, exist_ok=True)
    _share_mounts_under(folder)
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
    try:
        _in_new_thread(lambda: _unshare_and_hold(path))
    except BaseException:
        remove_namespace(path)
        raise


def remove_namespace(path: str) -> bool:
    """Remove the mount and the file at `path`; the namespace ends with its last user. False if it is missing.

    A plain file left by a crash between the two steps of the creation is removed too. Raises OSError.
    """
    for _ in range(_STACKED_MOUNTS):
        try:
            syscalls.umount(path, syscalls.MNT_DETACH | syscalls.UMOUNT_NOFOLLOW)
        except OSError as error:
            if error.errno == errno.EINVAL:  # not, or no longer, a mount point
                break
            if error.errno == errno.ENOENT:
                return False
            raise
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def _is_network_namespace(fd: int) -> bool:
    # The file type first: the same ioctl number may mean anything to a device.
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return False
    try:
        return fcntl.ioctl(fd, _NS_GET_NSTYPE) == syscalls.CLONE_NEWNET
    except OSError:
        return False


def _unshare_and_hold(path: str) -> None:
    syscalls.unshare(syscalls.CLONE_NEWNET)
    _bring_loopback_up()
    syscalls.mount(_CURRENT, path, syscalls.MS_BIND)


def _bring_loopback_up() -> None:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _, flags = _IFREQ.unpack(fcntl.ioctl(control, _SIOCGIFFLAGS, _IFREQ.pack(b"lo", 0)))
        fcntl.ioctl(control, _SIOCSIFFLAGS, _IFREQ.pack(b"lo", flags | _IFF_UP))


def _share_mounts_under(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Two processes that both find a plain folder must not both bind it on itself.
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            syscalls.mount("", folder, syscalls.MS_SHARED | syscalls.MS_REC)
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: not a mount point
                raise
            syscalls.mount(folder, folder, syscalls.MS_BIND | syscalls.MS_REC)
            syscalls.mount("", folder, syscalls.MS_SHARED | syscalls.MS_REC)
    finally:
        os.close(fd)


def _in_new_thread(action: Callable[[], None]) -> None:
    # In a thread that ends with the action, so that this one never leaves its namespace, not even on failure.
    from threading import Thread

    failures: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failures.append(error)

    thread = Thread(target=run, name="create-namespace")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
