"""The event loop: files to wait for and times to wake up at. One thread, no system call for a lease at rest."""

import heapq
import itertools
import selectors
import time
from collections.abc import Callable

from fast_stdlib.typing import Protocol

_LONGEST = 3600.0
"""Seconds in one wait."""


class _HasDescriptor(Protocol):
    def fileno(self) -> int:
        """Return the descriptor."""


def boot_time() -> float:
    """Return the seconds since the boot, with those that the machine slept: leases run out meanwhile."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Loop:
    """Calls functions when files are readable and when times come."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._times: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def at(self, when: float, call: Callable[[], object]) -> None:
        """Call once at a time of `boot_time`. The function finds out itself whether that is still of interest."""
        if when < float("inf"):
            heapq.heappush(self._times, (when, next(self._numbers), call))

    def watch(self, file: _HasDescriptor, call: Callable[[], object]) -> None:
        """Call whenever the file is readable, until `forget`."""
        self._selector.register(file, selectors.EVENT_READ, call)

    def forget(self, file: _HasDescriptor) -> None:
        """Stop watching; call it before the file is closed."""
        self._selector.unregister(file)

    def turn(self) -> None:
        """Wait for the next event, and call all functions whose time has come."""
        wait = min(_LONGEST, max(0.0, self._times[0][0] - boot_time())) if self._times else None
        for key, _ in self._selector.select(wait):
            if key.fileobj in self._selector.get_map():  # an earlier call may have closed it
                key.data()
        while self._times and self._times[0][0] <= boot_time():
            _, _, call = heapq.heappop(self._times)
            call()
