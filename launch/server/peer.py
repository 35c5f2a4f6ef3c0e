"""Who is at the other end of a connection, and whether the server acts for it: judged before anything is read.

A worker acts with the server's privileges. A caller with fewer would gain some, and one with others would lose some. So
the privileges of both, which /proc shows, must be equal. Not compared, since they do not change a plugin's privileges:
open files, niceness, OOM score, control group, signals, processors, and the uts, ipc, cgroup and time namespaces. A
Landlock domain cannot be compared: /proc does not show it.

The kernel says which process connected, and its PID says which folder of /proc is its own. But when a process has
ended, its PID is given to another one. Two ways exclude that:

- SO_PEERPIDFD (Linux 6.5) refers to the process itself. If it lives after its folder was read, the folder was its own.
- Before 6.5, the process of the folder must have sent the request and `G` (SCM_CREDENTIALS). A process that ended
  before the folder was opened may have left messages with its PID: so only the request may be there before `R` is sent.

Credentials are compared in both ways. They also tell the process that connected from a child that has its connection.
`R` and `G` are needed for nothing else, but for this: a process that sends the request may then execute a program with
another security label, which is judged. That program does not send `G`. So if there are labels, `G` is asked for, too.
Users cannot change so unseen: the credentials say who sent the request.
"""

import errno
import os
import re
import resource
import select
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import NamedTuple

# Lines of /proc/PID/status. The kernel writes them in this order, and escapes a newline in the process's name.
_USERS = re.compile(rb"\nUid:\t(.*)\nGid:\t(.*)\n")
_GROUPS = re.compile(rb"\nGroups:.*")
_CAPABILITIES = re.compile(rb"\nCapInh:.*\nCapPrm:.*\nCapEff:\t(.*)\nCapBnd:.*\nCapAmb:.*")
_RESTRICTIONS = re.compile(rb"\nNoNewPrivs:.*(?:\nSeccomp:.*)?")
_MOST_BYTES = 16384
_ROOT = b"0\t0\t0\t0"
"""Real, effective, saved and file system ID."""
_FILTERED = b"\nSeccomp:\t2"
_OVER_GROUPS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 4
"""CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FSETID: with all of them, supplementary groups allow nothing
that is not allowed anyway."""
_LIMITS = {
    "RLIMIT_AS": resource.RLIMIT_AS,
    "RLIMIT_DATA": resource.RLIMIT_DATA,
    "RLIMIT_FSIZE": resource.RLIMIT_FSIZE,
    "RLIMIT_CPU": resource.RLIMIT_CPU,
}
"""The limits that would end a call in the caller's own process."""
_NO_LABELS = {errno.EINVAL, errno.ENOENT}

SO_PEERPIDFD = 77
"""include/uapi/asm-generic/socket.h, of all machines but PA-RISC and SPARC; not in Python 3.11."""
# struct ucred of unix(7): pid, uid, gid.
_UCRED = struct.Struct("iII")
_INT = struct.Struct("i")
_CREDENTIALS = (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
CREDENTIALS_BYTES = socket.CMSG_SPACE(_UCRED.size)
"""Room for them in the ancillary data of each message."""


class PeerError(Exception):
    """The caller is not served; the message says why."""


class Identity(NamedTuple):
    """The privileges of a process that are compared."""

    users: tuple[bytes, ...]
    """User IDs and group IDs, as /proc/PID/status has them."""
    groups: bytes
    """The supplementary groups; empty if the server's capabilities make them irrelevant."""
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
    """The soft limits, in the order of `_LIMITS`; none if the process is not root's."""

    def require(self, theirs: "Identity") -> None:
        """Raise PeerError unless a process of this identity may act for one of `theirs`."""
        for reason in chain(self._other_place(theirs), self._other_privileges(theirs), self._lower_limits(theirs)):
            raise PeerError(reason)

    def _other_privileges(self, theirs: "Identity") -> Iterator[str]:
        if theirs.users != self.users or theirs.users != (_ROOT, _ROOT):
            yield f"not root: user IDs {_words(theirs.users[0])}, group IDs {_words(theirs.users[1])}"
        if _FILTERED in theirs.restrictions:  # nothing tells whether two filters are the same
            yield "under a filter of system calls"
        for their, our in ((theirs.restrictions, self.restrictions), (theirs.capabilities, self.capabilities)):
            if their != our:
                different = [_words(line) for line in their.splitlines() if line not in our.splitlines()]
                yield f"with other privileges: {', '.join(different)}"
        if theirs.groups != self.groups:
            yield f"in other groups: {_words(theirs.groups)}"
        if theirs.label != self.label:
            yield f"with another security label: {_words(theirs.label or b'')!r}"

    def _other_place(self, theirs: "Identity") -> Iterator[str]:
        if theirs.user_namespace != self.user_namespace:
            yield f"in another user namespace: {theirs.user_namespace}"
        if theirs.pid_namespace != self.pid_namespace:
            yield f"in another PID namespace: {theirs.pid_namespace}"
        here = theirs.mount_namespace == self.mount_namespace
        if theirs.root != "/" or (here and theirs.root_inode != self.root_inode):
            yield f"with another root folder: {theirs.root!r}"

    def _lower_limits(self, theirs: "Identity") -> Iterator[str]:
        if theirs.limits != self.limits:
            for name, their, our in zip(_LIMITS, theirs.limits, self.limits, strict=True):
                if their != resource.RLIM_INFINITY and (our == resource.RLIM_INFINITY or their < our):
                    yield f"with a lower {name}: {their}"


def own_identity() -> Identity:
    """Return the identity of this process. Raises OSError, and PeerError if /proc is of another PID namespace."""
    if os.readlink("/proc/self") != str(os.getpid()):
        raise PeerError("/proc is of another PID namespace")
    folder = open_folder(os.getpid())
    try:
        own = read_identity(folder, os.getpid())
    finally:
        os.close(folder)
    capabilities = _CAPABILITIES.fullmatch(own.capabilities)
    if capabilities and int(capabilities[1], 16) & _OVER_GROUPS == _OVER_GROUPS:
        own = own._replace(groups=b"")
    return own


def open_folder(pid: int) -> int:
    """Open /proc/PID: reading through it fails when that process has ended. Raises OSError."""
    return os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def read_identity(folder: int, pid: int, own: Identity | None = None) -> Identity:
    """Read the identity of the process with this folder and PID, as far as `own` is compared with it. Raises OSError.

    The limits are those of the PID: it must be the same process before and after.
    """
    status = _read(folder, "status")
    users, capabilities = _USERS.search(status), _CAPABILITIES.search(status)
    restrictions = _RESTRICTIONS.search(status)
    if not (users and capabilities and restrictions):  # thousands of supplementary groups
        raise OSError(errno.EOVERFLOW, os.strerror(errno.EOVERFLOW))
    groups = _GROUPS.search(status) if own is None or own.groups else None
    is_root = users.groups() == (_ROOT, _ROOT)
    root = os.stat("root", dir_fd=folder)
    return Identity(
        users=users.groups(),
        groups=groups[0] if groups else b"",
        capabilities=capabilities[0],
        restrictions=restrictions[0],
        label=_label(folder) if own is None or own.label is not None else None,
        user_namespace=os.readlink("ns/user", dir_fd=folder),
        pid_namespace=os.readlink("ns/pid", dir_fd=folder),
        mount_namespace=os.readlink("ns/mnt", dir_fd=folder),
        root=os.readlink("root", dir_fd=folder),
        root_inode=(root.st_dev, root.st_ino),
        # prlimit(2) may refuse to tell those of another user.
        limits=tuple([resource.prlimit(pid, number)[0] for number in _LIMITS.values()]) if is_root else (),
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
        return os.read(file, _MOST_BYTES)
    finally:
        os.close(file)


def _words(text: bytes) -> str:
    return " ".join(text.decode(errors="backslashreplace").split())


class Peer:
    """A process that was judged, or is about to be. After a PeerError nothing may be done for it."""

    def __init__(self, connection: socket.socket, pid: int, pidfd: int | None, folder: int) -> None:
        """Use the descriptors of the process (None: the kernel gives none), and of its folder in /proc."""
        self.pid = pid
        self.root_inode = (0, 0)
        """Device and inode of its root folder, which a worker must find at `/` of its mount namespace."""
        self.must_confirm = True
        """Whether `R` must be sent, and answered, before anything is done for it."""
        self._pidfd = pidfd
        self._folder = folder
        self._end = select.poll()
        if pidfd is not None:
            self._end.register(pidfd, select.POLLIN)
        self._connection = connection

    def judge(self, own: Identity) -> None:
        """Raise PeerError unless the process that connected lives, and one of identity `own` may act for it."""
        try:
            theirs = read_identity(self._folder, self.pid, own)
        except OSError as error:
            self.still_there()
            raise PeerError(f"unreadable: {error.strerror}") from None
        # Only now: a PID cannot have been another process's before, if its process still lives.
        self.still_there()
        own.require(theirs)
        self.root_inode = theirs.root_inode
        self.must_confirm = self._pidfd is None or own.label is not None

    def still_there(self) -> None:
        """Raise PeerError if the process has ended."""
        if self._pidfd is not None:
            if self._end.poll(0):
                raise PeerError("gone")
            return
        try:
            os.readlink("root", dir_fd=self._folder)  # not even a zombie has one
        except OSError:
            raise PeerError("gone") from None

    def check_silence(self) -> None:
        """Raise PeerError if there is one more message. To be called before `R` is sent."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        if poll.poll(0):
            raise PeerError("it did not wait for an answer")

    def check_credentials(self, ancillary: Iterable[tuple[int, int, bytes]]) -> None:
        """Raise PeerError unless the process has sent the message with this ancillary data, as root, and lives."""
        senders = [_UCRED.unpack(content) for *kind, content in ancillary if tuple(kind) == _CREDENTIALS]
        if senders != [(self.pid, 0, 0)]:
            raise PeerError("another process has sent a message")
        self.still_there()


def want_credentials(listening: socket.socket) -> None:
    """Have the kernel add the sender's credentials to each message of a connection."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


@contextmanager
def judge(connection: socket.socket, own: Identity, pidfd_option: int = SO_PEERPIDFD) -> Iterator[Peer]:
    """Yield who is at the other end, if a process of identity `own` may act for it. Raises PeerError.

    To be entered as soon as the connection is accepted. The listening socket must `want_credentials`. `pidfd_option` is
    the socket option that gives a descriptor of the process, if the kernel knows it.
    """
    try:
        want_credentials(connection)  # it may have connected when only systemd listened
        pid, uid, gid = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    except OSError as error:
        raise PeerError(f"unknown: {error.strerror}") from None
    if (uid, gid) != (0, 0):  # when it connected: it may have executed a setuid program since
        raise PeerError(f"not root: user {uid}, group {gid}")
    if pid <= 0:
        raise PeerError("in another PID namespace, which is not below the server's")
    with ExitStack() as stack:
        pidfd = _pidfd(connection, pidfd_option)
        if pidfd is not None:
            stack.callback(os.close, pidfd)
        try:
            folder = open_folder(pid)
        except OSError:
            raise PeerError("gone") from None
        stack.callback(os.close, folder)
        peer = Peer(connection, pid, pidfd, folder)
        peer.judge(own)
        yield peer


def _pidfd(connection: socket.socket, option: int) -> int | None:
    """Return a descriptor of the process that connected, which closes on exec; None if the kernel knows no such."""
    try:
        (pidfd,) = _INT.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _INT.size))
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            return None
        raise PeerError("gone") from None  # EINVAL or ESRCH, which depends on the kernel
    return int(pidfd)
