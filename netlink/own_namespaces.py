"""Namespaces of a program's own: of a thread for mounts, with some folders replaced, and of a process for users."""

import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import ExitStack, suppress

from fast_stdlib import syscalls

_ESCAPED = re.compile(r"\\([0-7]{3})")
"""A blank in the name of a mount point, for example (proc_pid_mountinfo(5))."""

# include/uapi/linux/capability.h
_CAP_NET_ADMIN = 12
_CAP_SYS_CHROOT = 18
_CAP_SYS_ADMIN = 21
_NEEDED = 1 << _CAP_NET_ADMIN | 1 << _CAP_SYS_CHROOT | 1 << _CAP_SYS_ADMIN
_ALL_USERS = ["0", "0", "4294967295"]
"""The map of user IDs of the machine's first user namespace: inside, outside, count."""


def private_mounts(binds: Mapping[str, str], kept: Collection[str] = ()) -> None:
    """Give the calling thread its own mount namespace, with each source of {target: source} bound over its target.

    See `enter_own_mounts` and `bind_over`. Raises OSError.
    """
    enter_own_mounts()
    bind_over(binds, kept)


def enter_own_mounts() -> None:
    """Give the calling thread its own mount namespace. Later mounts of others (/run/netns/NAME) still arrive here.

    Mounts made here stay here, except under folders that are shared again on purpose (`create_namespace` does). There
    is no way back for the thread; processes and threads that it starts begin in the new namespace. The thread also gets
    its own working folder, root and umask (mount namespaces imply CLONE_FS to be unshared). Raises OSError.
    """
    syscalls.unshare(syscalls.CLONE_NEWNS)
    try:
        _make_slave()
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _make_slave_from_outside()


def bind_over(binds: Mapping[str, str], kept: Collection[str] = ()) -> None:
    """Bind each source of {target: source} over its target, in the calling thread's own mount namespace.

    The targets and sources must exist. Paths in `kept` remain visible below targets, with the mounts on them; they may
    be missing or out of the user's reach, otherwise the source has a place for each. Raises OSError.
    """
    with ExitStack() as opened:
        # Opened before the first mount, which may hide the others' sources.
        sources = {target: _opened(source, opened) for target, source in binds.items()}
        kept_sources = _opened_if_there(kept, opened)
        for target, source in sources.items():
            syscalls.mount(source, target, syscalls.MS_BIND | syscalls.MS_REC)
        _bind_again(kept_sources)


def mount_layers(folders: Collection[str], memory: str, kept: Collection[str] = ()) -> dict[str, str]:
    """Have everything that is written in `folders` stay in memory, in the calling thread's own mount namespace.

    Return the folder of the changes for each, as overlayfs keeps them (a removed file is a character device 0:0): they
    are below the new tmpfs on the empty folder `memory`. A folder without an overlay, since the kernel refuses it, is
    left out. Paths in `kept` remain visible as in `bind_over`. Raises OSError.
    """
    layers = {}
    attributes = "userxattr," if in_user_namespace() else ""
    with ExitStack() as opened:
        kept_sources = _opened_if_there(kept, opened)
        lower = {folder: _opened(folder, opened) for folder in folders}
        syscalls.mount("tmpfs", memory, syscalls.MS_NOSUID | syscalls.MS_NODEV, "tmpfs", "mode=755")
        within = _opened(memory, opened)  # an overlay may hide its path
        for number, folder in enumerate(folders):
            upper, work = f"{within}/{number}", f"{within}/{number}-work"
            os.mkdir(upper)
            os.mkdir(work)
            _copy_owner_and_mode(folder, upper)
            own = f"upperdir={upper},workdir={work}"
            # No overlayfs here, too many above each other, or in a user namespace with mounts of the machine below.
            with suppress(OSError):
                syscalls.mount("overlay", folder, 0, "overlay", f"{attributes}lowerdir={lower[folder]},{own}")
                layers[folder] = f"{memory}/{number}"
        _bind_again(kept_sources)
    return layers


def make_read_only(is_writable: Callable[[str], bool]) -> None:
    """Make all mounts of the calling thread's own mount namespace read-only, except those that are writable.

    Linux 5.12; before it, and if a container's seccomp profile refuses it, nothing changes. Raises OSError.
    """
    for path in set(mount_points()):
        if not is_writable(path):
            try:
                syscalls.mount_read_only(path)
            except OSError as error:
                if error.errno in {errno.ENOSYS, errno.EPERM}:
                    return
                # Hidden by another mount, gone meanwhile, or the root of a chroot.
                if error.errno not in {errno.EINVAL, errno.ENOENT, errno.EACCES}:
                    raise


def mount_points() -> Iterator[str]:
    """Yield the paths that have a mount in the calling thread's mount namespace. Raises OSError."""
    with open("/proc/thread-self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            yield _ESCAPED.sub(lambda match: chr(int(match[1], 8)), line.split(" ", 5)[4])


class HeldMounts:
    """The mount namespace, root and working folder of the thread that makes this, for other threads to join."""

    def __init__(self) -> None:
        """Hold them until `close`. Raises OSError."""
        self._opened = ExitStack()
        with ExitStack() as on_failure:
            on_failure.callback(self._opened.close)
            self._namespace = self._open("/proc/thread-self/ns/mnt", os.O_RDONLY)
            self._root, self._folder = self._open("/", os.O_PATH), self._open(".", os.O_PATH)
            on_failure.pop_all()

    def join(self) -> None:
        """Move the calling thread there; there is no way back. Raises OSError."""
        syscalls.unshare(syscalls.CLONE_FS)
        syscalls.setns(self._namespace, syscalls.CLONE_NEWNS)
        os.fchdir(self._root)
        os.chroot(".")
        os.fchdir(self._folder)

    def close(self) -> None:
        """Hold them no longer. The kernel keeps the namespace while a thread or a process is in it."""
        self._opened.close()

    def _open(self, path: str, flags: int) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC)
        self._opened.callback(os.close, fd)
        return fd


def _opened_if_there(paths: Collection[str], opened: ExitStack) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in paths:
        with suppress(FileNotFoundError, PermissionError):  # what its user cannot reach stays hidden from it
            found[path] = _opened(path, opened)
    return found


def _bind_again(kept: Mapping[str, str]) -> None:
    for target, source in kept.items():
        with suppress(FileNotFoundError):  # removed since it was opened: the kernel mounts nothing without a name
            syscalls.mount(source, target, syscalls.MS_BIND | syscalls.MS_REC)


def _copy_owner_and_mode(folder: str, upper: str) -> None:
    found = os.stat(folder)
    with suppress(OSError):  # a user namespace lacks the owner
        os.chown(upper, found.st_uid, found.st_gid)
    os.chmod(upper, stat.S_IMODE(found.st_mode))


def _opened(path: str, opened: ExitStack) -> str:
    """Return a path that leads to the same thing until `opened` ends, whatever is mounted meanwhile."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    opened.callback(os.close, fd)
    return f"/proc/self/fd/{fd}"


def mount_own_sysfs() -> None:
    """Have /sys/class/net show the network namespace that the calling thread is in: it is that of the mounting.

    Some containers forbid this, and most programs do without.
    """
    with suppress(OSError):
        syscalls.mount("sysfs", "/sys", 0, "sysfs")


def mount_writable_view(folder: str, *, hidden: Container[str]) -> None:
    """Mount an empty file system on `folder`, with the entries of the folder bound in it except the `hidden` ones.

    The view of the folder is writable, even if the folder is another user's. Links are copied. Entries that cannot be
    bound are left out. It holds for the calling thread's mount namespace. Raises OSError.
    """
    below = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        names = [name for name in os.listdir(f"/proc/self/fd/{below}") if name not in hidden]
        syscalls.mount("tmpfs", folder, syscalls.MS_NOSUID | syscalls.MS_NODEV, "tmpfs", "mode=755")
        for name in names:
            with suppress(OSError):
                _show(f"/proc/self/fd/{below}/{name}", os.path.join(folder, name))
    finally:
        os.close(below)


def _show(source: str, target: str) -> None:
    mode = os.lstat(source).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(source), target)
        return
    if stat.S_ISDIR(mode):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
    # Recursive: the kernel refuses a bind that would uncover a folder below another mount.
    syscalls.mount(source, target, syscalls.MS_BIND | syscalls.MS_REC)


def _make_slave() -> None:
    syscalls.mount("", "/", syscalls.MS_SLAVE | syscalls.MS_REC)


def _make_slave_from_outside() -> None:
    """Do so if `/` is no mount point: in a chroot to a plain folder, whose mount has no name in it."""
    root, folder = (os.open(path, os.O_PATH | os.O_CLOEXEC) for path in ("/", "."))
    try:
        own = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            syscalls.setns(own, syscalls.CLONE_NEWNS)  # moves the thread to the root of its mount namespace
        finally:
            os.close(own)
        try:
            _make_slave()
        finally:
            os.fchdir(root)
            os.chroot(".")
            os.fchdir(folder)
    finally:
        os.close(root)
        os.close(folder)


def has_capabilities() -> bool:
    """Tell whether this process may make network namespaces and configure them (capabilities(7)). Raises OSError."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        effective = next(line.split()[1] for line in lines if line.startswith("CapEff:"))
    return int(effective, 16) & _NEEDED == _NEEDED


def in_user_namespace() -> bool:
    """Tell whether this process is in another user namespace than the machine's first one. Raises OSError."""
    with open("/proc/self/uid_map", encoding="ascii") as lines:
        return lines.readline().split() != _ALL_USERS


def enter_user_namespace() -> None:
    """Move this process into a new user namespace, with new mount and network namespaces that belong to it.

    Its user and group become root there, and are the only ones (user_namespaces(7)). The process must have one thread.
    Raises OSError: EINVAL with several threads or without kernel support, ENOSPC for user.max_user_namespaces.
    """
    user, group = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET)
    # In this order: the kernel lets an unprivileged process map its group only without setgroups(2).
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
