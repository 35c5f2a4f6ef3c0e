"""The few system calls that Python 3.11 does not have. All raise OSError.

netlink has those that it needs itself: neither of the two imports the other.
"""

import ctypes
import os

__all__ = [
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "file_system_in_memory",
    "set_process_name",
    "setns",
    "unshare",
]

# include/uapi/linux/sched.h and prctl.h
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
_PR_SET_NAME = 15

# include/uapi/asm-generic/unistd.h and mount.h: the same everywhere, and not known to every C library.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSOPEN_CLOEXEC = _FSMOUNT_CLOEXEC = 1
_FSCONFIG_CMD_CREATE = 6

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.argtypes = (ctypes.c_long,)
_libc.syscall.restype = ctypes.c_long


def setns(fd: int, kind: int) -> None:
    """Move the calling thread into the namespace of this kind (CLONE_NEW*) that `fd` refers to."""
    _check("setns", _libc.setns(fd, kind))


def unshare(kind: int) -> None:
    """Give the calling thread a new namespace of this kind."""
    _check("unshare", _libc.unshare(kind))


def set_process_name(name: bytes) -> None:
    """Set the name of the calling thread in /proc, of at most 15 bytes; the rest is cut off."""
    _check("prctl", _libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name)))


def file_system_in_memory() -> int:
    """Return the open root of a new tmpfs, mounted nowhere: it goes when its last file is closed (Linux 5.2)."""
    context = _check("fsopen", _libc.syscall(_FSOPEN, b"tmpfs", _FSOPEN_CLOEXEC))
    try:
        _check("fsconfig", _libc.syscall(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0))
        return _check("fsmount", _libc.syscall(_FSMOUNT, context, _FSMOUNT_CLOEXEC, 0))
    finally:
        os.close(context)


def _check(call: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), call)
    return result
