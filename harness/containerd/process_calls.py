"""System calls of the programs that make processes: prctl(2), pivot_root(2), open_tree(2), mount_setattr(2).

All raise OSError. The numbers are of include/uapi/linux/prctl.h and sched.h.
"""

import ctypes
import os
import platform
import struct
from typing import Final

CLONE_NEWPID: Final = 0x20000000
MS_RDONLY: Final = 0x1
MS_MOVE: Final = 0x2000

_PR_SET_PDEATHSIG: Final = 1
_PR_CAPBSET_DROP: Final = 24
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
_SIGKILL: Final = 9
# asm-generic/unistd.h; include/uapi/linux/mount.h and fcntl.h
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD: Final = -100
_OPEN_TREE_CLONE: Final = 1
_OPEN_TREE_CLOEXEC: Final = os.O_CLOEXEC
_AT_RECURSIVE: Final = 0x8000
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_MOVE_MOUNT_T_SYMLINKS: Final = 0x10
_MOUNT_ATTR: Final = struct.Struct("4Q")  # struct mount_attr: set, clear, propagation, userns_fd
_MOUNT_ATTR_RDONLY: Final = 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


def become_subreaper() -> None:
    """Make the process the new parent of all orphans among its descendants."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have SIGKILL end the process when its parent's thread ends. A change of the user undoes this."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def drop_from_bounding_set(capability: int) -> None:
    """Take a capability from all programs that the process will execute."""
    _prctl(_PR_CAPBSET_DROP, capability)


def forbid_new_privileges() -> None:
    """Have execve(2) give no rights that the process lacks."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def mount_with_options(filesystem: str, target: str, flags: int = 0, options: str = "") -> None:
    """Mount a new file system at `target`."""
    words = (filesystem, target, filesystem)
    if _libc.mount(*(os.fsencode(word) for word in words), flags, os.fsencode(options) if options else None):
        raise _error(target)


def pivot_root(new: str, old: str) -> None:
    """Make the mount at `new` the root, and put the old root at `old`."""
    _call(_PIVOT_ROOT[platform.machine()], os.fsencode(new), os.fsencode(old))


def copy_mount(path: str) -> int:
    """Copy the mount at `path`, with the mounts below it; return a descriptor for `attach_mount` (Linux 5.2)."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    return _call(_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags, path=path)


def attach_mount(copy: int, target: str) -> None:
    """Mount a copy at `target`, once, and close its descriptor."""
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_SYMLINKS
    try:
        _call(_MOVE_MOUNT, copy, b"", _AT_FDCWD, os.fsencode(target), flags, path=target)
    finally:
        os.close(copy)


def set_readonly(path: str, *, recursive: bool) -> None:
    """Forbid writing to the mount at `path`, and with `recursive` to those below it; other flags stay (Linux 5.12)."""
    attributes = _MOUNT_ATTR.pack(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    _call(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes), path=path)


def _prctl(option: int, argument: int) -> None:
    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(argument), zero, zero, zero):
        raise _error()


def _call(number: int, *arguments: bytes | int, path: str | None = None) -> int:
    result: int = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise _error(path)
    return result


def _error(path: str | None = None) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
