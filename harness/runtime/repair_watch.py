"""The life of `cni-harness repair --watch`: wait for a loss, repair, look again.

A repair changes the rules that it is told about. So a loss that is announced during a repair may be the repair's own
doing, or another program's: it leads to one more repair, which changes nothing if all is in order. Should each
repair cause another, the pauses between them grow.
"""

import time
from collections.abc import Callable

from netlink.nft_monitor import LossMonitor

_CONFIRM_AFTER_S = (1.0, 4.0, 15.0)
"""Pauses before the caches are read again, for DELs that were under way during a repair, in seconds."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 60.0


class RepairWatch:
    """Calls `repair` at the start and after every loss, and `confirm` some time after each repair."""

    def __init__(
        self,
        monitor: LossMonitor,
        *,
        repair: Callable[[], object],
        confirm: Callable[[], object],
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._monitor = monitor
        self._repair = repair
        self._confirm = confirm
        self._pause = pause

    def run(self) -> None:
        """Go on until an exception ends it: the one that a signal raises, or an OSError."""
        repeated = 0
        while True:
            self._confirm()
            self._repair()
            if self._monitor.wait(0):
                if repeated:
                    self._pause(min(_FIRST_PAUSE_S * 2**repeated, _LONGEST_PAUSE_S))
                repeated += 1
            else:
                repeated = 0
                self._wait_for_loss()

    def _wait_for_loss(self) -> None:
        for pause in _CONFIRM_AFTER_S:
            if self._monitor.wait(pause):
                return
            self._confirm()
        self._monitor.wait(None)
