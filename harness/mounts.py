"""Mounts of the kubelet and of the built-in runtime: no change of one of them reaches a mount of the node.

Most nodes have shared mounts. There, a bind mount is a peer of its source: a file system that is unmounted below one of
them is unmounted below the other, too (mount_namespaces(7)).
"""

import errno
import os
import re
from pathlib import Path
from typing import Final

from fast_stdlib import syscalls

_MOUNTINFO: Final = "/proc/thread-self/mountinfo"
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")
# "rslave" is shared, too: containerd refuses a source that is neither a slave nor shared.
_STEPS: Final = {
    "private": (syscalls.MS_PRIVATE,),
    "rslave": (syscalls.MS_SLAVE, syscalls.MS_SHARED),
    "rshared": (),
}


def bind(source: str, target: Path, propagation: str) -> None:
    """Bind `source` at `target`, without the mounts below it (as kubelet's doBindSubPath).

    `propagation` is the CRI's: mounts below the source reach the target only with "rslave" and "rshared", and the
    other way only with "rshared". Raises OSError.
    """
    syscalls.mount(source, str(target), syscalls.MS_BIND)
    for step in _STEPS[propagation]:
        syscalls.mount("", str(target), step)


def detach(target: Path) -> bool:
    """Unmount the topmost mount at `target`, with the mounts below it; False if it is no mount point. Raises OSError.

    The mounts become private first. Otherwise the mounts of the node that are their peers would be unmounted, too.
    """
    try:
        syscalls.mount("", str(target), syscalls.MS_PRIVATE | syscalls.MS_REC)
        syscalls.umount(str(target), syscalls.MNT_DETACH | syscalls.UMOUNT_NOFOLLOW)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ENOENT}:  # EINVAL: it is no mount point
            return False
        raise
    return True


def detach_below(folder: Path) -> None:
    """Unmount all mounts below a folder, so that its removal enters none. Raises OSError."""
    for path in reversed(mount_points_below(folder)):
        while detach(Path(path)):
            pass


def mount_points_below(folder: str | os.PathLike[str]) -> list[str]:
    """Return the mount points below a folder in the order of their names, a folder before those below it."""
    prefix = os.path.realpath(folder).rstrip("/") + "/"
    with open(_MOUNTINFO, "rb") as file:  # noqa: PTH123 -- read by programs that start containers
        found = {_unescaped(line.split()[4]) for line in file}
    return sorted(path for path in found if path.startswith(prefix) and path != prefix)


def _unescaped(path: bytes) -> str:
    """Decode white space and backslashes, which the kernel writes as octal numbers (proc_pid_mountinfo(5))."""
    return os.fsdecode(_ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), path))
