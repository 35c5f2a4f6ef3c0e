"""A mount namespace of one thread's own, in which some folders are replaced by others."""

import errno
import os
import stat
from collections.abc import Collection, Container, Mapping
from contextlib import ExitStack, suppress

from lean import syscalls

__all__ = ["mount_own_sysfs", "mount_writable_view", "private_mounts"]


def private_mounts(binds: Mapping[str, str], kept: Collection[str] = ()) -> None:
    """Give the calling thread its own mount namespace, with each source of {target: source} bound over its target.

    The targets and sources must exist. Paths in `kept` remain visible below targets, with the mounts on them; they may
    be missing, otherwise the source has a place for each. Later mounts of others (/run/netns/NAME) still arrive here.
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
    with ExitStack() as opened:
        # Opened before the first mount, which may hide the others' sources.
        sources = {target: _opened(source, opened) for target, source in binds.items()}
        kept_sources: dict[str, str] = {}
        for path in kept:
            with suppress(FileNotFoundError):
                kept_sources[path] = _opened(path, opened)
        for target, source in sources.items():
            syscalls.mount(source, target, syscalls.MS_BIND | syscalls.MS_REC)
        for target, source in kept_sources.items():
            with suppress(FileNotFoundError):  # removed since it was opened: the kernel mounts nothing without a name
                syscalls.mount(source, target, syscalls.MS_BIND | syscalls.MS_REC)


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
