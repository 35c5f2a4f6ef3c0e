"""Why pods and containers do not start: the network, and the newest error of each container (kubelet's ReasonCache)."""

import threading
from collections import OrderedDict
from typing import Final, NamedTuple

from harness.cri.messages import NETWORK_READY, RuntimeStatus

NETWORK_NOT_READY: Final = "network is not ready"
"""Begins the error of a sync that fails for the network's sake; such a sync is repeated after one second."""
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


def network_error(status: RuntimeStatus) -> str | None:
    """Return why pods cannot get a network, None if they can; pods on the node's network start all the same.

    The condition is written as Go prints it, `<nil>` if it is missing.
    """
    why = "<nil>"
    for condition in status.conditions:
        if condition.type == NETWORK_READY:
            if condition.status:
                return None
            why = f"{NETWORK_READY}=false reason:{condition.reason} message:{condition.message}"
    return f"container runtime network not ready: {why}"
