"""The few system calls that Python 3.11 does not have. All raise OSError."""

import ctypes
import os

__all__ = ["CLONE_NEWNET", "CLONE_NEWNS", "populate_for_writing", "set_parent_death_signal", "setns", "unshare"]

# include/uapi/linux/sched.h and prctl.h
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
# include/uapi/asm-generic/mman-common.h
_MADV_POPULATE_WRITE = 23

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def setns(fd: int, kind: int) -> None:
    """Move the calling thread into the namespace of this kind (CLONE_NEW*) that `fd` refers to."""
    _check("setns", _libc.setns(fd, kind))


def unshare(kind: int) -> None:
    """Give the calling thread a new namespace of this kind."""
    _check("unshare", _libc.unshare(kind))


def set_parent_death_signal(number: int) -> None:
    """Have the kernel send this process a signal when its parent ends; 0 for none."""
    _check("prctl", _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number)))


def populate_for_writing(address: int, length: int) -> None:
    """Have the kernel do now what the first write to each of these pages would make it do (Linux 5.14)."""
    _check("madvise", _libc.madvise(address, length, _MADV_POPULATE_WRITE))


def _check(call: str, result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), call)
