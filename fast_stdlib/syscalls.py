"""System calls that Python 3.11 does not have, such as setns(2), unshare(2), mount(2), openat2(2), prctl(2), capget(2).

All of them act on the calling *thread* (mount and umount on its mount namespace) and raise OSError.
"""

import os
import struct

from fast_stdlib.typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
MS_SHARED = 0x100000

MNT_DETACH = 0x2
UMOUNT_NOFOLLOW = 0x8

# asm-generic/unistd.h: these new calls have one number on all architectures but Alpha.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSOPEN_CLOEXEC = _FSMOUNT_CLOEXEC = 1
_FSCONFIG_CMD_CREATE = 6

_MOUNT_SETATTR = 442
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
_READ_ONLY = struct.pack("4Q", 0x1, 0, 0, 0)
"""struct mount_attr (include/uapi/linux/mount.h): set, clear, propagation, descriptor of a user namespace."""

RESOLVE_BENEATH = 0x8
RESOLVE_IN_ROOT = 0x10
_OPENAT2 = 437
_OPEN_HOW = struct.Struct("3Q")  # struct open_how: flags, mode, resolve (include/uapi/linux/openat2.h)
_RESOLVE_NO_MAGICLINKS = 0x2
_TRIES = 100

# include/uapi/linux/prctl.h
_PR_SET_NAME = 15
_PR_GET_SECCOMP, _PR_GET_NO_NEW_PRIVS = 21, 39
# include/uapi/linux/capability.h: struct __user_cap_header_struct of version 3, for the calling thread
_CAPABILITIES_OF_THIS_THREAD = struct.pack("=Ii", 0x20080522, 0)


class _LibC:
    """The functions of the C library. `ctypes`, which takes 2 ms, is loaded for the first one."""

    def __getattr__(self, name: str) -> "ctypes._NamedFuncPointer":
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
        libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
        libc.setns.argtypes = (ctypes.c_int, ctypes.c_int)
        libc.unshare.argtypes = (ctypes.c_int,)
        libc.syscall.restype = ctypes.c_long
        self.__dict__.update({each: getattr(libc, each) for each in _FUNCTIONS})
        found: ctypes._NamedFuncPointer = self.__dict__[name]
        return found


_FUNCTIONS = ("capget", "mount", "prctl", "setns", "syscall", "umount2", "unshare")
_libc = _LibC()


def setns(fd: int, nstype: int) -> None:
    """Move the calling thread into the namespace that `fd` refers to."""
    if _libc.setns(fd, nstype):
        raise _error()


def capabilities() -> bytes:
    """Return the effective, permitted and inheritable capabilities of the calling thread, as capget(2) has them."""
    import ctypes

    sets = ctypes.create_string_buffer(24)
    if _libc.capget(_CAPABILITIES_OF_THIS_THREAD, sets):
        raise _error()
    return sets.raw


def confinement() -> tuple[int, int]:
    """Return the seccomp mode of the calling thread, and whether it can gain no privileges (prctl(2))."""
    return _libc.prctl(_PR_GET_SECCOMP), _libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)


def unshare(flags: int) -> None:
    """Give the calling thread new namespaces of its own."""
    if _libc.unshare(flags):
        raise _error()


def set_process_name(name: bytes) -> None:
    """Set the name of the calling thread in /proc, of at most 15 bytes; the rest is cut off."""
    import ctypes

    if _libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name)):
        raise _error()


def prctl(option: int, argument: int) -> None:
    """Set an option of the calling thread or its process (include/uapi/linux/prctl.h)."""
    import ctypes

    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(argument), zero, zero, zero):
        raise _error()


def mount(source: str, target: str, flags: int, filesystem: str = "none", options: str = "") -> None:
    """Mount, bind or change the propagation of `target`, as `flags` (MS_*) say; `options` are the file system's own."""
    own = os.fsencode(options) if options else None
    if _libc.mount(os.fsencode(source), os.fsencode(target), os.fsencode(filesystem), flags, own):
        raise _error(target)


def umount(target: str, flags: int = 0) -> None:
    """Unmount the topmost mount at `target`."""
    if _libc.umount2(os.fsencode(target), flags):
        raise _error(target)


def mount_nowhere(filesystem: str) -> int:
    """Mount a new `filesystem` (Linux 5.2) without a path; return a descriptor of its root.

    It is unmounted when its last file is closed.
    """
    context = call(_FSOPEN, filesystem.encode(), _FSOPEN_CLOEXEC)
    try:
        call(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, 0)
    finally:
        os.close(context)


def mount_read_only(path: str, *, recursive: bool = False) -> None:
    """Make the topmost mount at `path` read-only, and with `recursive` those below it (Linux 5.12)."""
    flags = AT_RECURSIVE if recursive else 0
    call(_MOUNT_SETATTR, AT_FDCWD, os.fsencode(path), flags, _READ_ONLY, len(_READ_ONLY), path=path)


def open_within(folder: int, path: str, flags: int, resolve: int) -> int:
    """Open a file below the open `folder`, whatever another process does to the path meanwhile (Linux 5.6).

    `resolve` says what links may do. With RESOLVE_BENEATH, a path that leaves the folder is an error, EXDEV. With
    RESOLVE_IN_ROOT, the folder is the root of absolute paths and links.
    """
    how = _OPEN_HOW.pack(flags | os.O_CLOEXEC, 0, resolve | _RESOLVE_NO_MAGICLINKS)
    for _ in range(_TRIES):
        try:
            return call(_OPENAT2, folder, os.fsencode(path), how, len(how))
        except BlockingIOError:  # EAGAIN: a rename elsewhere hides whether ".." stays below the folder
            continue
    return call(_OPENAT2, folder, os.fsencode(path), how, len(how))


def call(number: int, *args: int | bytes | None, path: str | None = None) -> int:
    """Make the system call of this number and return its result; errors name `path`."""
    import ctypes

    result: int = _libc.syscall(ctypes.c_long(number), *args)
    if result < 0:
        raise _error(path)
    return result


def _error(path: str | None = None) -> OSError:
    import ctypes

    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
