"""A process of the server: its log on stderr, its name, and the state of a worker's.

The name is in /proc/PID/comm, and in the command line that ps shows. A worker enters its caller's namespaces, folder
and umask for a call, leaves them, and compares its own.
"""

import _signal  # type: ignore[import-not-found] # it has no stubs; without the names that `signal` gives each number
import os
import resource
import signal
from contextlib import suppress
from time import sleep
from typing import NamedTuple

from fast_stdlib import recorder
from fast_stdlib.syscalls import CLONE_NEWNET, CLONE_NEWNS, capabilities, confinement, set_process_name, setns
from skel.plugin import OpenSockets

from .protocol import HandoffError

_COMM_BYTES = 15
"""The kernel's limit for /proc/PID/comm (TASK_COMM_LEN without the NUL)."""

# /proc/PID/stat, counted from the first field after the name in parentheses (proc(5): arg_start is field 48).
_ARG_START, _ARG_END = 48 - 3, 49 - 3

UMASK = 0o022
"""Of a worker without work; its working directory is the root folder."""

_PAUSE_SECONDS = 0.0001
_PAUSES = 1000
"""For a thread that has ended, to the kernel too."""

_SIGNALS = range(1, 65)
_TIMERS = range(3)
_GROWTH_KIB = 64 * 1024
"""A worker that has needed so much more memory than at its start gives it back by its end."""


def name_process(name: str, detail: str = "") -> None:
    """Name this process `name`, of at most 15 bytes; its command line becomes `name: detail`.

    A process without /proc keeps its command line. Raises nothing.
    """
    set_comm(name)
    with suppress(OSError):
        _set_command_line(f"{name}: {detail}" if detail else name)


def set_comm(name: str) -> None:
    """Name this process `name`, of at most 15 bytes, and leave its command line. Raises nothing."""
    with suppress(OSError):
        set_process_name(name.encode()[:_COMM_BYTES])


def _set_command_line(text: str) -> None:
    """Overwrite the arguments in this process's memory, as setproctitle(3) of BSD does."""
    with open("/proc/self/stat", "rb", buffering=0) as file:
        fields = file.read().rpartition(b")")[2].split()
    start, size = int(fields[_ARG_START]), int(fields[_ARG_END]) - int(fields[_ARG_START])
    if size <= 0:
        return
    memory = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
    try:
        # The last byte stays NUL: otherwise the kernel reads on into the environment.
        os.pwrite(memory, os.fsencode(text)[: size - 1].ljust(size, b"\0"), start)
    finally:
        os.close(memory)


def log(message: str) -> None:
    """Write one line. Raises nothing."""
    with suppress(OSError):
        os.write(2, f"cni-harness server: {message}\n".encode("utf-8", "backslashreplace"))


class CallerState(NamedTuple):
    """A caller's namespaces, folder and umask."""

    cwd: int
    network: int
    mounts: int
    """Open files."""
    umask: int
    root: tuple[int, int]
    """Device and inode of its root folder."""


class ProcessState:
    """A worker's namespaces, folder, umask and open files."""

    def __init__(self) -> None:
        """Take note of them, when everything is open that the worker keeps open. Raises OSError."""
        self._network, self._mounts = (_opened(f"ns/{name}", os.O_RDONLY) for name in ("net", "mnt"))
        self._network_id, self._mounts_id = _identity(self._network), _identity(self._mounts)
        self._root_id = self._cwd_id = _identity("/")
        os.chdir("/")
        os.umask(UMASK)
        self._umask = UMASK
        self._entered: list[tuple[int, int]] = []
        self._self, self._open = _opened("", os.O_DIRECTORY), _opened("fd", os.O_DIRECTORY)
        self._limits = _opened("limits", os.O_RDONLY)
        self._namespaces = _opened("ns", os.O_DIRECTORY)
        self._files = {number for number in os.listdir(self._open) if is_open(int(number))}
        self._settings = self._read_settings()
        self._peak_kib = _peak_kib()
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def is_own_network(self, caller: CallerState) -> bool:
        """Tell whether a caller is in the worker's own network namespace."""
        return _identity(caller.network) == self._network_id

    def enter(self, caller: CallerState) -> None:
        """Go where the caller is. Raises HandoffError, OSError: half gone there. `leave` must follow, also then."""
        if _identity(caller.mounts) != self._mounts_id:
            self._wait_for_threads()  # of the call before: they share the root folder, which the kernel refuses
            setns(caller.mounts, CLONE_NEWNS)
            self._entered.append((self._mounts, CLONE_NEWNS))
            self._cwd_id = _identity(".")
            if _identity("/") != caller.root:
                raise HandoffError("in another root folder")
            if os.readlink("/proc/self") != str(os.getpid()):
                raise HandoffError("with the /proc of another PID namespace")
        if not self.is_own_network(caller):
            setns(caller.network, CLONE_NEWNET)
            self._entered.append((self._network, CLONE_NEWNET))
        os.fchdir(caller.cwd)
        self._cwd_id = _identity(caller.cwd)
        os.umask(caller.umask)
        self._umask = caller.umask

    def leave(self, open_sockets: OpenSockets) -> str:
        """Come back from the caller; return the changes that the call has made in this process, empty if none."""
        changes = {
            "the umask": os.umask(UMASK) != self._umask,
            "the working directory": _identity(".") != self._cwd_id,
            "the threads": not self._wait_for_threads(),
        }
        try:
            while self._entered:
                setns(*self._entered.pop())
            os.chdir("/")
        except OSError as error:
            return f"the way back: {error}"
        self._umask, self._cwd_id = UMASK, self._root_id
        settings = self._read_settings()
        changes |= {name: settings[name] != before for name, before in self._settings.items()}
        ours = (self._network_id, self._mounts_id, self._root_id)
        # The list of open files has one more, which it is read by.
        files, expected = set(os.listdir(self._open)), self._files.union(map(str, open_sockets.descriptors()))
        changes |= {
            "the memory": _peak_kib() - self._peak_kib > _GROWTH_KIB,
            "the namespaces": tuple(map(_identity, ("/proc/self/ns/net", "/proc/self/ns/mnt", "/"))) != ours,
            "the open files": not expected <= files or len(files) != len(expected) + 1,
            "the recorder": recorder() is not None,
            "the blocked signals": signal.pthread_sigmask(signal.SIG_BLOCK, ()) != self._blocked,
            "the environment": bool(os.environ),
            "the child processes": _has_children(),
        }
        return ", ".join(change for change, is_made in changes.items() if is_made)

    def _read_settings(self) -> dict[str, object]:
        """Return the settings of the process that a plugin can change."""
        return {
            "the resource limits": os.pread(self._limits, 4096, 0),
            "the signal handlers": tuple(map(_signal.getsignal, _SIGNALS)),
            "the timers": tuple(map(_signal.getitimer, _TIMERS)),
            "the nice value": os.getpriority(os.PRIO_PROCESS, 0),
            "the capabilities": (capabilities(), confinement()),
            # In a new user namespace the IDs are those of nobody.
            "the user": (os.getresuid(), os.getresgid()),
            "the UTS namespace": os.stat("uts", dir_fd=self._namespaces).st_ino,
        }

    def _wait_for_threads(self) -> bool:
        """Tell whether there is one thread only; one that Python has taken leave of may need a moment to end."""
        for _ in range(_PAUSES):
            if os.stat("task", dir_fd=self._self).st_nlink == 3:  # noqa: PLR2004 -- two, and one for each thread
                return True
            sleep(_PAUSE_SECONDS)
        return False


def _opened(name: str, flags: int) -> int:
    return os.open(f"/proc/self/{name}", flags | os.O_CLOEXEC)


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _identity(path: str | int) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def is_open(fd: int) -> bool:
    """Tell whether this process has a file of that number open."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True
