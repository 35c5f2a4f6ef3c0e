"""Taking on the circumstances of another process: what a plugin's process would have had from its caller.

Of the process that does so nothing is left but its memory, and the connection that it answers on. What cannot be taken
over is either required to be equal (`launch.server.peer`) or stays the server's: control group, session, parent, and
what README.md names besides.
"""

import errno
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from .protocol import CIRCUMSTANCES, HandoffError, Request, decode_environment
from .syscalls import CLONE_NEWNET, CLONE_NEWNS, io_priority, set_io_priority, set_parent_death_signal, setns

__all__ = [
    "ALL_DESCRIPTORS",
    "Descriptors",
    "Inherited",
    "close_all_but",
    "descriptors_of",
    "die_with",
    "inherited",
    "live_on",
    "take_on",
    "take_streams",
]

ALL_DESCRIPTORS = 0x7FFFFFFF
"""The highest that a file descriptor could be."""
_RLIMITS = range(16)
"""RLIM_NLIMITS of include/uapi/asm-generic/resource.h: all that there are."""
_PYTHONS_OWN = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
"""Ignored by every Python from its start."""
_OURS = 1 << signal.SIGTERM - 1 | 1 << signal.SIGALRM - 1
"""How the server ends an execution that is no longer wanted, or that takes too long."""


class Descriptors(NamedTuple):
    """The open files of a request."""

    cwd: int
    network: int
    mounts: int
    root: int


class Inherited(NamedTuple):
    """What a child inherits and any process may read of another; all of it can be taken on."""

    limits: tuple[tuple[int, int], ...]
    nice: int
    oom_score_adj: bytes
    processors: set[int]
    scheduling: tuple[int, int]
    """Policy and priority."""
    io_priority: int


def descriptors_of(received: Sequence[int]) -> Descriptors:
    """Tell the file descriptors that came with a request apart. Raises HandoffError."""
    if len(received) != CIRCUMSTANCES:
        raise HandoffError(f"{len(received)} file descriptors, {CIRCUMSTANCES} are due")
    return Descriptors(*received)


def inherited(pid: int) -> Inherited:
    """Return what a child of `pid` would inherit. Raises OSError (ESRCH, ENOENT) when that has gone."""
    with open(f"/proc/{pid}/oom_score_adj", "rb", buffering=0) as file:
        oom_score_adj = file.read()
    limits = tuple([resource.prlimit(pid, number) for number in _RLIMITS])
    return Inherited(
        limits=limits,
        nice=os.getpriority(os.PRIO_PROCESS, pid),
        oom_score_adj=oom_score_adj,
        processors=os.sched_getaffinity(pid),
        scheduling=(os.sched_getscheduler(pid), os.sched_getparam(pid).sched_priority),
        io_priority=io_priority(pid),
    )


def take_on(request: Request, descriptors: Descriptors, theirs: Inherited) -> None:
    """Become what the caller's own child would be, but for the open files. Raises OSError, ValueError: half done.

    The process must have one thread, no environment, no signal blocked and none ignored but by Python.
    """
    _inherit(theirs)
    _enter(descriptors)
    if os.readlink("/proc/self") != str(os.getpid()):
        raise OSError(errno.EXDEV, "the caller sees another PID namespace", "/proc")
    os.umask(request.umask)
    _replace_environment(decode_environment(request.environment))
    _take_on_signals(request)


def close_all_but(*kept: int) -> None:
    """Leave open these descriptors and nothing else."""
    lowest = 0
    for fd in sorted(kept):
        os.closerange(lowest, fd)
        lowest = fd + 1
    os.closerange(lowest, ALL_DESCRIPTORS)


def take_streams(streams: Sequence[int | None], null: int) -> None:
    """Have the caller's streams as 0, 1 and 2. They were received when these were free, so none is above its place.

    One that the caller has closed is `null`, which goes, to what is executed from here, and None to Python, as it
    would be. Raises OSError.
    """
    for number, fd in reversed(list(enumerate(streams))):
        os.dup2(null if fd is None else fd, number)
    os.close(null)
    stdin, stdout, stderr = streams
    sys.stdin = None
    if stdin is not None:
        with suppress(OSError):  # a directory
            # Anew: what the old one has found out about its file does not hold for this one.
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if stdout is None:
        sys.stdout = None
    if stderr is None:
        sys.stderr = None


def die_with(parent: int) -> None:
    """Have the kernel kill this process when `parent` ends, which may have happened already. Raises OSError."""
    set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def live_on() -> None:
    """Survive the parent. Raises OSError."""
    set_parent_death_signal(0)


def _inherit(theirs: Inherited) -> None:
    ours = inherited(os.getpid())
    if ours.oom_score_adj != theirs.oom_score_adj:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(theirs.oom_score_adj)
    for number, (our, their) in enumerate(zip(ours.limits, theirs.limits, strict=True)):
        if our != their:
            resource.setrlimit(number, their)
    if ours.nice != theirs.nice:
        os.setpriority(os.PRIO_PROCESS, 0, theirs.nice)
    if ours.processors != theirs.processors:
        os.sched_setaffinity(0, theirs.processors)
    if ours.scheduling != theirs.scheduling:
        policy, priority = theirs.scheduling
        os.sched_setscheduler(0, policy, os.sched_param(priority))
    if ours.io_priority != theirs.io_priority:
        set_io_priority(theirs.io_priority)


def _enter(descriptors: Descriptors) -> None:
    """Go where the caller is; first into its mounts, which takes the root and the working directory along."""
    namespaces = ((CLONE_NEWNS, "mnt", descriptors.mounts), (CLONE_NEWNET, "net", descriptors.network))
    ours = [os.stat(f"/proc/self/ns/{name}") for _, name, _ in namespaces]
    for (kind, _, fd), our in zip(namespaces, ours, strict=True):
        their = os.fstat(fd)
        if (our.st_dev, our.st_ino) != (their.st_dev, their.st_ino):
            setns(fd, kind)
    os.fchdir(descriptors.root)
    os.chroot(".")
    os.fchdir(descriptors.cwd)


def _replace_environment(environ: Mapping[bytes, bytes]) -> None:
    # One by one, through os.environb: the C library and what is executed see it, too.
    for name, value in environ.items():
        os.environb[name] = value


def _take_on_signals(request: Request) -> None:
    for number in _signals(request.ignored & ~(_PYTHONS_OWN | _OURS)):
        signal.signal(number, signal.SIG_IGN)
    if blocked := _signals(request.blocked & ~_OURS):
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)


def _signals(mask: int) -> set[int]:
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1} if mask else set()
