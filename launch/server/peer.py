"""Who is served: callers with the server's own privileges, judged from /proc before anything of theirs is read.

A worker acts with the server's privileges, so whoever has fewer would gain them, and whoever has others would lose some.
Not compared is what does not change what a plugin may do: open files, niceness, OOM score, control group, signals,
processors, and the uts, ipc, cgroup and time namespaces. A Landlock domain cannot be compared: /proc does not show it.

The kernel says which process connected, and a PID says which folder of /proc is its own, but the PID of a process that
has ended is given to another one. Two ways exclude that:

- SO_PEERPIDFD (Linux 6.5) refers to the process itself. If it lives after its folder was read, the folder was its own.
- Before 6.5 the process of the folder must have sent the request and `G` (SCM_CREDENTIALS). A process that ended before
  its folder was opened may have left messages with its PID, so none but the request may be there before `R`.

The credentials are compared in both ways: they also tell the process that connected from a child with its connection.
"""

import errno
import os
import re
import resource
import select
import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

__all__ = [
    "CREDENTIALS_BYTES",
    "SO_PEERPIDFD",
    "Identity",
    "Peer",
    "PeerError",
    "judge",
    "own_identity",
    "want_credentials",
]

SO_PEERPIDFD = 77
"""include/uapi/asm-generic/socket.h, of all machines but PA-RISC and SPARC; not in Python 3.11."""
# struct ucred of unix(7): pid, uid, gid.
_UCRED = struct.Struct("iII")
CREDENTIALS_BYTES = socket.CMSG_SPACE(_UCRED.size)
"""What the credentials add to the ancillary data of each message."""
_INT = struct.Struct("i")

# Lines of /proc/PID/status; the kernel writes them in this order, and escapes a newline in the process's name.
_USERS = re.compile(rb"\nUid:\t(.*)\nGid:\t(.*)\n")
_GROUPS = re.compile(rb"\nGroups:.*")
_CAPABILITIES = re.compile(rb"\nCapInh:.*\nCapPrm:.*\nCapEff:\t(.*)\nCapBnd:.*\nCapAmb:.*")
_RESTRICTIONS = re.compile(rb"\nNoNewPrivs:.*(?:\nSeccomp:.*)?")
_STATUS_BYTES = 16384
_ROOT = b"0\t0\t0\t0"
"""Real, effective, saved and file system ID."""
_FILTERED = b"\nSeccomp:\t2"
_OVER_GROUPS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 4
"""CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FSETID: with all of them supplementary groups decide nothing."""
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)
_LIMIT_NAMES = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_CPU")
_NO_LABELS = {errno.EINVAL, errno.ENOENT}
"""Without AppArmor, SELinux or their like."""


class PeerError(Exception):
    """The caller is not served; the message says why."""


class Identity(NamedTuple):
    """What a process may do, as far as it must be equal."""

    users: tuple[bytes, ...]
    """User IDs and group IDs, as /proc/PID/status has them."""
    groups: bytes
    """The supplementary groups; empty if the capabilities make them irrelevant."""
    capabilities: bytes
    restrictions: bytes
    """no_new_privs and seccomp."""
    label: bytes | None
    """Of AppArmor, SELinux or their like; None if the kernel has none."""
    user_namespace: str
    pid_namespace: str
    mount_namespace: str
    root: str
    """As the reader of /proc sees it: `/` also for the root of another mount namespace."""
    root_inode: tuple[int, int]
    """Device and inode."""
    limits: tuple[int, ...]
    """The soft limits of `_LIMITS`."""

    def require(self, theirs: "Identity") -> None:
        """Raise PeerError unless a process of this identity may act for one of `theirs`."""
        if theirs.users != self.users or theirs.users != (_ROOT, _ROOT):
            raise PeerError(f"not root: user IDs {_words(theirs.users[0])}, group IDs {_words(theirs.users[1])}")
        if theirs.user_namespace != self.user_namespace:
            raise PeerError(f"in another user namespace: {theirs.user_namespace}")
        if theirs.pid_namespace != self.pid_namespace:
            raise PeerError(f"in another PID namespace: {theirs.pid_namespace}")
        if _FILTERED in theirs.restrictions:  # nothing tells whether two filters are the same
            raise PeerError("under a filter of system calls")
        if theirs.restrictions != self.restrictions:
            raise PeerError(f"with other privileges: {_different(theirs.restrictions, self.restrictions)}")
        if theirs.capabilities != self.capabilities:
            raise PeerError(f"with other privileges: {_different(theirs.capabilities, self.capabilities)}")
        if theirs.groups != self.groups:
            raise PeerError(f"in other groups: {_words(theirs.groups)}")
        if theirs.label != self.label:
            raise PeerError(f'with another security label: "{_words(theirs.label or b"")}"')
        if theirs.root != "/":
            raise PeerError(f"with another root folder: {theirs.root}")
        if theirs.mount_namespace == self.mount_namespace and theirs.root_inode != self.root_inode:
            raise PeerError("with another root folder")
        for name, their, our in zip(_LIMIT_NAMES, theirs.limits, self.limits, strict=True):
            if their != our and their != resource.RLIM_INFINITY and (our == resource.RLIM_INFINITY or their < our):
                raise PeerError(f"with a lower {name}: {their}")


class Peer:
    """A process that was judged. Its connection must not be used for it after any PeerError."""

    def __init__(self, connection: socket.socket, pid: int, pidfd: int | None, folder: int) -> None:
        """Take over the descriptors: of the process (None: the kernel gives none), and of its folder in /proc."""
        self.pid = pid
        self.root_inode = (0, 0)
        """Device and inode of its root folder, which a worker that enters its mount namespace must find there."""
        self._pidfd = pidfd
        self._folder = folder
        self._end = select.poll()
        if pidfd is not None:
            self._end.register(pidfd, select.POLLIN)
        self._messages = select.poll()
        self._messages.register(connection, select.POLLIN)

    def __enter__(self) -> "Peer":
        """Return itself; `close` comes at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close its descriptors."""
        self.close()

    def close(self) -> None:
        """Close its descriptors. A second call does nothing."""
        for fd in self.descriptors():
            os.close(fd)
        self._pidfd, self._folder = None, -1

    def descriptors(self) -> list[int]:
        """Return its open descriptors."""
        return [fd for fd in (self._pidfd, self._folder) if fd is not None and fd >= 0]

    def judge(self, own: Identity) -> None:
        """Raise PeerError unless the process that connected lives and a process of identity `own` may act for it."""
        try:
            theirs = _identity(self._folder, self.pid, over_groups=not own.groups, labelled=own.label is not None)
        except OSError as error:
            raise PeerError(f"its identity cannot be read: {error.strerror}") from None
        self.still_there()
        own.require(theirs)
        self.root_inode = theirs.root_inode

    def still_there(self) -> None:
        """Raise PeerError if the process that connected has ended."""
        if self._pidfd is not None:
            if self._end.poll(0):
                raise PeerError("it has ended")
            return
        try:
            os.readlink("root", dir_fd=self._folder)  # a process that has ended, but was not waited for, has no root
        except OSError:
            raise PeerError("it has ended") from None

    def check_request(self, ancillary: Iterable[tuple[int, int, bytes]]) -> None:
        """Raise PeerError unless the process that connected has sent this message, lives, and has sent no more yet.

        To be called with the request, before `R`.
        """
        self.check_credentials(ancillary)
        if self._messages.poll(0):
            raise PeerError("it did not wait for an answer")

    def check_credentials(self, ancillary: Iterable[tuple[int, int, bytes]]) -> None:
        """Raise PeerError unless the process that connected has sent the message with this ancillary data, and lives.

        To be called with each message after the request.
        """
        senders = [
            _UCRED.unpack(content)
            for level, kind, content in ancillary
            if (level, kind, len(content)) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, _UCRED.size)
        ]
        if [pid for pid, _, _ in senders] != [self.pid]:
            raise PeerError("a message that another process has sent")
        self.still_there()


def own_identity() -> Identity:
    """Return the identity of this process. Raises OSError, and PeerError if /proc is of another PID namespace."""
    if os.readlink("/proc/self") != str(os.getpid()):
        raise PeerError("/proc is of another PID namespace")
    folder = _folder(os.getpid())
    try:
        own = _identity(folder, os.getpid(), over_groups=False, labelled=True)
    finally:
        os.close(folder)
    capabilities = _CAPABILITIES.fullmatch(own.capabilities)
    if capabilities and int(capabilities[1], 16) & _OVER_GROUPS == _OVER_GROUPS:
        own = own._replace(groups=b"")
    return own


def want_credentials(listening: socket.socket) -> None:
    """Have the kernel add the sender's credentials to each message of those who connect from now on."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def judge(connection: socket.socket, own: Identity, pidfd_option: int = SO_PEERPIDFD) -> Peer:
    """Return who is at the other end if a process of identity `own` may act for it. Raises PeerError.

    To be called when the connection was accepted, before anything is read. The listening socket must `want_credentials`.
    `pidfd_option` is the socket option that gives a descriptor of the process, if the kernel knows it.
    """
    try:
        want_credentials(connection)  # a socket that systemd listened at may have been connected to before
        pid, uid, gid = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    except OSError as error:
        raise PeerError(f"unknown to the kernel: {error.strerror}") from None
    if (uid, gid) != (0, 0):
        raise PeerError(f"not root: user {uid}, group {gid}")
    if pid <= 0:
        raise PeerError("in another PID namespace")
    pidfd = _pidfd(connection, pidfd_option)
    try:
        folder = _folder(pid)
    except OSError:
        if pidfd is not None:
            os.close(pidfd)
        raise PeerError("it has ended") from None
    peer = Peer(connection, pid, pidfd, folder)
    try:
        peer.judge(own)
    except PeerError:
        peer.close()
        raise
    return peer


def _pidfd(connection: socket.socket, option: int) -> int | None:
    """Return a descriptor of the process that connected, which closes on exec; None if the kernel knows no such."""
    try:
        (pidfd,) = _INT.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _INT.size))
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            return None
        raise PeerError("it has ended") from None  # EINVAL or ESRCH, by the kernel's version
    return int(pidfd)


def _folder(pid: int) -> int:
    """Open the folder of a process: what is read through it fails when that process has ended. Raises OSError."""
    return os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _identity(folder: int, pid: int, *, over_groups: bool, labelled: bool) -> Identity:
    """Read the identity of the process with this folder and PID. Raises OSError."""
    status = _read(folder, "status")
    users, capabilities, restrictions = (
        _USERS.search(status),
        _CAPABILITIES.search(status),
        _RESTRICTIONS.search(status),
    )
    if not (users and capabilities and restrictions):  # more supplementary groups than are read
        raise OSError(errno.EOVERFLOW, os.strerror(errno.EOVERFLOW))
    groups = None if over_groups else _GROUPS.search(status)
    root = os.stat("root", dir_fd=folder)
    return Identity(
        users=users.groups(),
        groups=groups[0] if groups else b"",
        capabilities=capabilities[0],
        restrictions=restrictions[0],
        label=_label(folder) if labelled else None,
        user_namespace=os.readlink("ns/user", dir_fd=folder),
        pid_namespace=os.readlink("ns/pid", dir_fd=folder),
        mount_namespace=os.readlink("ns/mnt", dir_fd=folder),
        root=os.readlink("root", dir_fd=folder),
        root_inode=(root.st_dev, root.st_ino),
        limits=tuple([resource.prlimit(pid, number)[0] for number in _LIMITS]),
    )


def _label(folder: int) -> bytes | None:
    try:
        return _read(folder, "attr/current")
    except OSError as error:
        if error.errno in _NO_LABELS:
            return None
        raise


def _read(folder: int, name: str) -> bytes:
    file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(file, _STATUS_BYTES)
    finally:
        os.close(file)


def _different(theirs: bytes, ours: bytes) -> str:
    known = set(ours.splitlines())
    return ", ".join(_words(line) for line in theirs.splitlines() if line not in known)


def _words(text: bytes) -> str:
    return " ".join(text.decode(errors="backslashreplace").split())
