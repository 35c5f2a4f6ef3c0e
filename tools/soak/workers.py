"""The server's processes as the kernel sees them: which worker is at work, its memory and its descriptors."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_IDLE: Final = "cni-worker"
_SECONDS: Final = 60.0
"""For workers to come to rest: only a hang reaches it."""


class Sample(NamedTuple):
    """A process without work at one moment."""

    pid: int
    rss_kib: int
    descriptors: int


def at_work(server: int) -> list[int]:
    """Return the process IDs of the workers that carry out a call: each then has its plugin's name."""
    return [pid for pid, comm in _workers(server) if comm != _IDLE]


def sample_all(server: int, *, rest: float) -> list[Sample]:
    """Return samples of the server and then of its workers, `rest` seconds after none is at work any more.

    Raises TimeoutError.
    """
    wait_for(lambda: not at_work(server))
    time.sleep(rest)
    return [found for pid in (server, *(pid for pid, _ in _workers(server))) if (found := _sample(pid)) is not None]


def wait_for(condition: Callable[[], bool]) -> None:
    """Return when something is so. Raises TimeoutError."""
    deadline = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > deadline:
            message = f"not so within {_SECONDS:.0f} s: {condition}"
            raise TimeoutError(message)
        time.sleep(0.001)


def _workers(server: int) -> Iterator[tuple[int, str]]:
    """Yield the process ID and the name of each worker that has not ended."""
    for pid in Path(f"/proc/{server}/task/{server}/children").read_text(encoding="ascii").split():
        try:
            yield int(pid), Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
        except (FileNotFoundError, ProcessLookupError):
            continue


def _sample(pid: int) -> Sample | None:
    """Return None for a process that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return None
    words = dict(line.split(":", 1) for line in status.splitlines())
    if "VmRSS" not in words:  # it is ending
        return None
    return Sample(pid, int(words["VmRSS"].split()[0]), descriptors)
