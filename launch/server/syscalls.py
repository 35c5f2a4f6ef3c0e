"""The few system calls that Python 3.11 does not have. All raise OSError.

netlink has those that it needs itself: neither of the two imports the other.
"""

import ctypes
import os
import sys

__all__ = [
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "file_system_in_memory",
    "io_priority",
    "populate_for_writing",
    "set_io_priority",
    "set_parent_death_signal",
    "set_process_name",
    "setns",
    "unshare",
]

# include/uapi/linux/sched.h and prctl.h
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
# include/uapi/asm-generic/mman-common.h
_MADV_POPULATE_WRITE = 23

# include/uapi/asm-generic/unistd.h and mount.h: the same everywhere, and not known to every C library.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSOPEN_CLOEXEC = _FSMOUNT_CLOEXEC = 1
_FSCONFIG_CMD_CREATE = 6
# arch/*/include/uapi/asm/unistd*.h: ioprio_set and ioprio_get, for programs of 64 bits.
_IOPRIO = {"x86_64": (251, 252), "aarch64": (30, 31), "riscv64": (30, 31)} if sys.maxsize > 1 << 32 else {}
_IOPRIO_SET, _IOPRIO_GET = _IOPRIO.get(os.uname().machine, (0, 0))
# include/uapi/linux/ioprio.h
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_CLASS_SHIFT = 13

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.syscall.argtypes = (ctypes.c_long,)
_libc.syscall.restype = ctypes.c_long


def setns(fd: int, kind: int) -> None:
    """Move the calling thread into the namespace of this kind (CLONE_NEW*) that `fd` refers to."""
    _check("setns", _libc.setns(fd, kind))


def unshare(kind: int) -> None:
    """Give the calling thread a new namespace of this kind."""
    _check("unshare", _libc.unshare(kind))


def set_parent_death_signal(number: int) -> None:
    """Have the kernel send this process a signal when its parent ends; 0 for none."""
    _check("prctl", _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number)))


def set_process_name(name: bytes) -> None:
    """Set the name of the calling thread in /proc, of at most 15 bytes; the rest is cut off."""
    _check("prctl", _libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name)))


def populate_for_writing(address: int, length: int) -> None:
    """Have the kernel do now what the first write to each of these pages would make it do (Linux 5.14)."""
    _check("madvise", _libc.madvise(address, length, _MADV_POPULATE_WRITE))


def file_system_in_memory() -> int:
    """Return the open root of a new tmpfs, mounted nowhere: it goes when its last file is closed (Linux 5.2)."""
    context = _check("fsopen", _libc.syscall(_FSOPEN, b"tmpfs", _FSOPEN_CLOEXEC))
    try:
        _check("fsconfig", _libc.syscall(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0))
        return _check("fsmount", _libc.syscall(_FSMOUNT, context, _FSMOUNT_CLOEXEC, 0))
    finally:
        os.close(context)


def io_priority(pid: int) -> int:
    """Return the class and level of ioprio_get(2); 0 where there is none, or no knowing on this machine."""
    if not _IOPRIO_GET:
        return 0
    priority = _check("ioprio_get", _libc.syscall(_IOPRIO_GET, _IOPRIO_WHO_PROCESS, pid))
    # What some kernels say of a process without a class is not what they take.
    return priority if priority >> _IOPRIO_CLASS_SHIFT else 0


def set_io_priority(priority: int) -> None:
    """Give this process what `io_priority` has returned."""
    _check("ioprio_set", _libc.syscall(_IOPRIO_SET, _IOPRIO_WHO_PROCESS, 0, priority))


def _check(call: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), call)
    return result
