"""The newest result of each probe of each container (kubelet's prober/results)."""

import threading
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple


class ProbeResult(StrEnum):
    """The outcome of a probe; Unknown before the first, and if a probe cannot be made."""

    SUCCESS = "Success"
    FAILURE = "Failure"
    UNKNOWN = "Unknown"


class ProbeUpdate(NamedTuple):
    """A change of a container's result."""

    container_id: str
    pod_uid: str
    result: ProbeResult


class ProbeResults:
    """Results of one type of probe by container ID, for use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[str, ProbeResult] = {}
        self._callbacks: list[Callable[[ProbeUpdate], None]] = []

    def get(self, container_id: str) -> ProbeResult | None:
        """Return the newest result; None if the container has no such probe, or is not known yet."""
        with self._lock:
            return self._results.get(container_id)

    def set(self, container_id: str, pod_uid: str, result: ProbeResult) -> None:
        """Store a result; if it differs from the last, call the callbacks in this thread."""
        with self._lock:
            if self._results.get(container_id) is result:
                return
            self._results[container_id] = result
            callbacks = tuple(self._callbacks)
        for callback in callbacks:
            callback(ProbeUpdate(container_id, pod_uid, result))

    def remove(self, container_id: str) -> None:
        """Forget a container; no callback is called."""
        with self._lock:
            self._results.pop(container_id, None)

    def on_change(self, callback: Callable[[ProbeUpdate], None]) -> None:
        """Have `callback` called after each change, without any lock held."""
        with self._lock:
            self._callbacks.append(callback)


class Probes(NamedTuple):
    """The results of the three types of probes."""

    startup: ProbeResults
    liveness: ProbeResults
    readiness: ProbeResults
