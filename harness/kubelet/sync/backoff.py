"""Growing delays between retries (client-go's util/flowcontrol.Backoff, without jitter)."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple


class _Entry(NamedTuple):
    delay_s: float
    updated: float


class Backoff:
    """Delays by key, for use by several threads: `initial_s` seconds at first, then doubled up to `maximum_s`.

    Times are seconds since 1970. A key expires when an event comes more than twice `maximum_s` after its last update.
    kubelet has two: for restarts of containers, and for pulls of images; both are 10 s to 300 s.
    """

    def __init__(self, initial_s: float = 10, maximum_s: float = 300, clock: Callable[[], float] = time.time) -> None:
        self._initial_s = initial_s
        self._maximum_s = maximum_s
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def is_in_backoff_since(self, key: str, since: float) -> bool:
        """Tell whether less than the delay has passed since the event at `since`, such as a container's end."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or self._expired(entry, since):
                return False
            return self._clock() - since < entry.delay_s

    def is_in_backoff(self, key: str) -> bool:
        """Tell whether less than the delay has passed since the last `next`: for tries that have no end of their own.

        Such are pulls of images (client-go's IsInBackOffSinceUpdate).
        """
        with self._lock:
            entry = self._entries.get(key)
            return entry is not None and self._clock() - entry.updated < entry.delay_s

    def remaining_s(self, key: str, since: float) -> float:
        """Return the seconds until the delay after the event at `since` has passed, 0 if it has."""
        return max(0.0, since + self.get(key) - self._clock())

    def next(self, key: str, event: float | None = None) -> None:
        """Take the next delay for the time after `event`, by default now: the initial one if the key is new."""
        with self._lock:
            event = self._clock() if event is None else event
            entry = self._entries.get(key)
            if entry is None or self._expired(entry, event):
                delay_s = self._initial_s
            else:
                delay_s = min(entry.delay_s * 2, self._maximum_s)
            now = self._clock()
            # Containers and images come and go, and a kubelet runs for long: expired keys are forgotten here.
            self._entries = {each: entry for each, entry in self._entries.items() if not self._expired(entry, now)}
            self._entries[key] = _Entry(delay_s, now)

    def get(self, key: str) -> float:
        """Return the delay in seconds, 0 for an unknown key."""
        with self._lock:
            entry = self._entries.get(key)
            return entry.delay_s if entry else 0

    def _expired(self, entry: _Entry, event: float) -> bool:
        return event - entry.updated > 2 * self._maximum_s
