"""The state and the start time of processes, from /proc/PID/stat (proc_pid_stat(5))."""

from typing import Final, NamedTuple

# Counted from behind the name, which may hold anything.
_STATE: Final = 0
_STARTED: Final = 19


class ProcessStat(NamedTuple):
    """A process: `state` is Z or X for one that has ended. `started` is in clock ticks since boot.

    The start time tells a process from a later one of the same PID.
    """

    state: str
    started: int

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left of the process but its exit code."""
        return self.state in {"Z", "X"}


def process_stat(pid: int) -> ProcessStat | None:
    """Return the process of this PID, None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 -- pathlib is slow to load for a shim
            words = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return ProcessStat(words[_STATE].decode(), int(words[_STARTED]))
