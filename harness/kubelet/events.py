"""Events of pods, as `kubectl describe` shows them: `events.jsonl` in the pod's folder, one JSON object a line."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from api.formats import format_time
from api.pod import V1Pod
from skel.decoders import integer, string
from skel.errors import CniError
from skel.record import Record, field
from skel.state_file import write_whole

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

_FILE: Final = "events.jsonl"
_MAXIMUM: Final = 256
"""Events of a pod; an API server keeps events for an hour instead."""


class Event(Record):
    """An event; equal ones are counted. Times are RFC 3339 in UTC.

    `field_path` is `spec.containers{NAME}` or `spec.initContainers{NAME}` for a container's event, else empty.
    """

    type: str = field(string)
    reason: str = field(string)
    message: str = field(string, default="")
    field_path: str = field(string, default="")
    count: int = field(integer, default=1)
    first_timestamp: str = field(string, default="")
    last_timestamp: str = field(string, default="")
    pod: str = field(string, default="")
    namespace: str = field(string, default="")
    uid: str = field(string, default="")


class EventRecorder:
    """Writes events below `folder`, the parent of the pods' folders; for use by several threads of one process."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()

    def event(self, pod: V1Pod, type: str, reason: str, message: str, field_path: str = "") -> None:
        """Record an event of a pod, or count it if an equal one exists. Raises OSError."""
        now = format_time(self._clock())
        with self._lock:
            events = self.of(pod.metadata.uid)
            key = (type, reason, message, field_path)
            event = next((e for e in events if (e.type, e.reason, e.message, e.field_path) == key), None)
            if event is None:
                event = Event(
                    type=type,
                    reason=reason,
                    message=message,
                    field_path=field_path,
                    count=0,
                    first_timestamp=now,
                    pod=pod.metadata.name,
                    namespace=pod.metadata.namespace,
                    uid=pod.metadata.uid,
                )
            else:
                events.remove(event)
            event.count += 1
            event.last_timestamp = now
            events.append(event)
            path = self._folder / pod.metadata.uid / _FILE
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            content = "".join(json.dumps(each.encode()) + "\n" for each in events[-_MAXIMUM:]).encode()
            # To flush would cost a sync of the disk each time.
            write_whole(str(path), content, mode=0o644, durable=False)

    def of(self, uid: str) -> list[Event]:
        """Return the events of a pod, the one that happened last at the end; unreadable lines are left out."""
        try:
            lines = (self._folder / uid / _FILE).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        events: list[Event] = []
        for line in lines:
            with suppress(ValueError, CniError):
                events.append(Event.decode(json.loads(line)))
        return events
