"""The privileges of a process, from /proc. They must equal the server's, or the server does not act for that process.

A worker acts with the server's privileges. A caller with fewer would gain some, and one with others would lose some.
Not compared, since they do not change a plugin's privileges: open files, niceness, OOM score, control group, signals,
processors, and the uts, ipc, cgroup and time namespaces. A Landlock domain cannot be compared: /proc does not show it.
"""

import errno
import os
import re
import resource
from collections.abc import Iterator
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
                yield f"with other privileges: {_different(their, our)}"
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


def _different(theirs: bytes, ours: bytes) -> str:
    known = set(ours.splitlines())
    return ", ".join(_words(line) for line in theirs.splitlines() if line not in known)


def _words(text: bytes) -> str:
    return " ".join(text.decode(errors="backslashreplace").split())
