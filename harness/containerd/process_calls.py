"""System calls of the programs that make processes: prctl(2), pivot_root(2), open_tree(2), move_mount(2).

All raise OSError. The numbers are of include/uapi/linux/prctl.h and mount.h, and asm-generic/unistd.h.
"""

import os
import platform
from typing import Final

from fast_stdlib import syscalls

_PR_SET_PDEATHSIG: Final = 1
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_SIGKILL: Final = 9
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
_OPEN_TREE, _MOVE_MOUNT = 428, 429
_OPEN_TREE_CLONE: Final = 1
_OPEN_TREE_CLOEXEC: Final = os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_MOVE_MOUNT_T_SYMLINKS: Final = 0x10


def become_subreaper() -> None:
    """Make the process the new parent of all orphans among its descendants."""
    syscalls.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have SIGKILL end the process when its parent's thread ends. A change of the user undoes this."""
    syscalls.prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def drop_from_bounding_set(capability: int) -> None:
    """Take a capability from all programs that the process will execute."""
    syscalls.prctl(_PR_CAPBSET_DROP, capability)


def forbid_new_privileges() -> None:
    """Have execve(2) give no rights that the process lacks."""
    syscalls.prctl(_PR_SET_NO_NEW_PRIVS, 1)


def pivot_root(new: str, old: str) -> None:
    """Make the mount at `new` the root, and put the old root at `old`."""
    syscalls.call(_PIVOT_ROOT[platform.machine()], os.fsencode(new), os.fsencode(old))


def copy_mount(path: str) -> int:
    """Copy the mount at `path`, with the mounts below it; return a descriptor for `attach_mount` (Linux 5.2)."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | syscalls.AT_RECURSIVE
    return syscalls.call(_OPEN_TREE, syscalls.AT_FDCWD, os.fsencode(path), flags, path=path)


def attach_mount(copy: int, target: str) -> None:
    """Mount a copy at `target`, once, and close its descriptor."""
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_SYMLINKS
    try:
        syscalls.call(_MOVE_MOUNT, copy, b"", syscalls.AT_FDCWD, os.fsencode(target), flags, path=target)
    finally:
        os.close(copy)
