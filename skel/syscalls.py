"""The few system calls that Python 3.11 does not have. All raise OSError."""

import ctypes
import os

__all__ = ["CLONE_NEWNET", "CLONE_NEWNS", "set_parent_death_signal", "setns", "unshare"]

# include/uapi/linux/sched.h and prctl.h
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def setns(fd: int, kind: int) -> None:
    """Move the calling thread into the namespace of this kind (CLONE_NEW*) that `fd` refers to."""
    _check("setns", _libc.setns(fd, kind))


def unshare(kind: int) -> None:
    """Give the calling thread a new namespace of this kind."""
    _check("unshare", _libc.unshare(kind))


def set_parent_death_signal(number: int) -> None:
    """Have the kernel send this process a signal when its parent ends; 0 for none."""
    _check("prctl", _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number)))


def _check(call: str, result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), call)
