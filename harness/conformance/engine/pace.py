"""The speed of this machine at the moment, and a lock by which a check is repeated without others beside it."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition
from typing import Final

from harness.runtime.site import Site

_QUIET_SECONDS: Final = 0.035
"""The time of the commands below on a quiet machine with two processors."""
_TIMES: Final = 3
_BUSY: Final = 2.0
"""The machine is busy if they take so many times longer."""
_COMMANDS: Final = (
    ("/bin/true",),
    ("ip", "link", "add", "pace0", "type", "veth", "peer", "name", "pace1"),
    ("ip", "link", "delete", "pace0"),
)


def slowness(state_dir: Path) -> float:
    """Return how many times slower than on a quiet machine a program and a veth pair are now, at least 1.

    Raises OSError; CalledProcessError if no veth pair can be made.
    """
    with Site(state_dir, "conformance") as site:
        node = site.node()
        began = time.monotonic()
        for _ in range(_TIMES):
            for words in _COMMANDS:
                node.run(subprocess.run, words, check=True)
        took = time.monotonic() - began
    return max(1.0, took / _TIMES / _QUIET_SECONDS)


def is_busy(slow: float) -> bool:
    """Tell whether a machine that is so many times slower than usual is busy."""
    return slow >= _BUSY


class Quiet:
    """Has any threads work beside each other, or one of them alone."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._beside = 0
        self._waiting = 0
        self._is_alone = False

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Work beside others, as soon as nobody works alone or waits for it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_alone and not self._waiting)
            self._beside += 1
        try:
            yield
        finally:
            with self._changed:
                self._beside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Work alone, as soon as nobody works."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._is_alone and not self._beside)
            self._waiting -= 1
            self._is_alone = True
        try:
            yield
        finally:
            with self._changed:
                self._is_alone = False
                self._changed.notify_all()
