"""The resources that processes use, from proc(5)."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["has_connection", "is_writing", "peak_rss", "process_tree", "pss"]

_PROC: Final = Path("/proc")
# Fields of /proc/PID/stat after the name, which may hold any character: state is the first, the parent the second.
_PARENT = 1
_KIB = 1024


def process_tree(pid: int) -> list[int]:
    """Return `pid` and all processes that descend from it, including dead ones that were not waited for."""
    parents = {int(folder.name): _parent(folder) for folder in _PROC.iterdir() if folder.name.isdigit()}
    tree = [pid] if pid in parents else []
    for member in tree:
        tree += [child for child, parent in parents.items() if parent == member]
    return tree


def peak_rss(pid: int) -> int:
    """Return the most memory that a running process has had resident since its execve, in bytes (VmHWM).

    The ru_maxrss of wait4(2) is unusable: it starts with the resident memory of the process that called posix_spawn.
    """
    return _kib(_PROC / str(pid) / "status", "VmHWM:") * _KIB


def pss(pids: Iterable[int]) -> int:
    """Return the memory of running processes in bytes; shared memory is divided among all its sharers."""
    total = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            total += _kib(_PROC / str(pid) / "smaps_rollup", "Pss:") * _KIB
    return total


def is_writing(pid: int) -> bool:
    """Tell whether a thread of a process waits for room in a pipe."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return any("pipe_write" in (task / "wchan").read_text() for task in (_PROC / str(pid) / "task").iterdir())
    return False


def has_connection(pid: int) -> bool:
    """Tell whether a process has a socket of AF_UNIX open."""
    folder = _PROC / str(pid)
    with suppress(FileNotFoundError, ProcessLookupError):
        files = {str(path.readlink()) for path in (folder / "fd").iterdir()}
        sockets = (folder / "net" / "unix").read_text().splitlines()[1:]
        return any(f"socket:[{line.split()[6]}]" in files for line in sockets)
    return False


def _parent(folder: Path) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        return int(_stat(folder)[_PARENT])
    return 0


def _stat(folder: Path) -> list[str]:
    return (folder / "stat").read_text().rpartition(") ")[2].split()


def _kib(path: Path, key: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0
