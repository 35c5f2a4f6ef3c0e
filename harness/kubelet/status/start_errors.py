"""Why containers do not start: the error of a start, and the newest one of each container (kubelet's ReasonCache)."""

import threading
from collections import OrderedDict
from typing import Final, NamedTuple

_MAXIMUM: Final = 1000
"""Entries, as in kubelet: enough for 100 pods with ten containers each."""


class StartError(Exception):
    """A container does not start; `reason` is that of its waiting state, such as CrashLoopBackOff."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Reason(NamedTuple):
    """An error: one word in CamelCase, such as CrashLoopBackOff, and a message."""

    reason: str
    message: str


class ReasonCache:
    """Errors by pod UID and container name, for use by several threads; the least recently used are dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: OrderedDict[tuple[str, str], Reason] = OrderedDict()

    def set(self, uid: str, container: str, reason: str, message: str) -> None:
        """Store the error of a start."""
        with self._lock:
            self._reasons[uid, container] = Reason(reason, message)
            self._reasons.move_to_end((uid, container))
            if len(self._reasons) > _MAXIMUM:
                self._reasons.popitem(last=False)

    def remove(self, uid: str, container: str) -> None:
        """Forget the error: the container has started."""
        with self._lock:
            self._reasons.pop((uid, container), None)

    def get(self, uid: str, container: str) -> Reason | None:
        """Return the error of the newest start; None if that succeeded, or none was tried."""
        with self._lock:
            reason = self._reasons.get((uid, container))
            if reason is not None:
                self._reasons.move_to_end((uid, container))
            return reason
