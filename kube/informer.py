"""A local copy of a resource's objects, which a thread keeps true: it reads the list, then watches from that version.

A consumer is told *that* something has changed, by a file descriptor, and reads the copy. So many changes between two
looks cost one, and nothing is lost if the consumer is busy. The copy stays as it is while the server is away.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from kube.backoff import Backoff
from kube.client import EVERYTHING, PAGE, Client, Object, Resource, Selection, WatchEvent
from kube.config import ClusterConfig
from kube.errors import ApiError, ConnectionLostError, KubeError

T = TypeVar("T")

_SHORT: Final = 10.0
"""Seconds; a watch that ends sooner is followed by a pause."""
_MISSING: Final[Any] = object()
"""Stands for the value of an object that does not exist: `keep` may return None."""


class Informer(Generic[T]):
    """The objects of a resource by their keys, `NAMESPACE/NAME`, or NAME for objects outside of namespaces.

    `keep` returns the part of an object that the copy holds, so that thousands of objects need little memory; it runs
    in the informer's thread and must not raise. A change that `keep` does not show is none. A list is read in pages of
    `page` objects. `backoff` has the pauses after errors, and `timeout` is that of a client.
    """

    def __init__(
        self,
        config: ClusterConfig,
        resource: Resource,
        keep: Callable[[Object], T],
        selection: Selection = EVERYTHING,
        *,
        page: int = PAGE,
        backoff: Backoff | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._resource = resource
        self._selection = selection
        self._keep = keep
        self._page = page
        self._stopped = threading.Event()
        self._client = Client(config, timeout=timeout, sleep=self._stopped.wait)
        self._lock = threading.Lock()
        self._objects: dict[str, T] = {}
        self._changed: set[str] = set()
        self._version = ""
        self._synced = False
        self._problem = ""
        self._backoff = backoff or Backoff()
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name=f"informer of {resource.plural}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and close the descriptor. A thread that is just connecting ends when that has failed."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._client.interrupt()
        if self._thread.is_alive():
            self._thread.join()
        os.close(self._descriptor)

    def fileno(self) -> int:
        """Return a descriptor that is readable if something has changed since `take_changes`."""
        return self._descriptor

    @property
    def has_synced(self) -> bool:
        """Whether the whole list has been read once: until then, an object that is missing here may exist."""
        return self._synced

    @property
    def problem(self) -> str:
        """Why the copy may be old, for users; empty while it is followed."""
        return self._problem

    def objects(self) -> dict[str, T]:
        """Return the copy's content of this moment."""
        with self._lock:
            return dict(self._objects)

    def take_changes(self) -> set[str]:
        """Return the keys of objects that came, changed or went since the last call."""
        with self._lock:
            changed, self._changed = self._changed, set()
            with suppress(BlockingIOError):  # nothing has changed
                os.eventfd_read(self._descriptor)
        return changed

    def _run(self) -> None:
        while not self._stopped.is_set():
            begun, asked, ended = time.monotonic(), 0.0, False
            try:
                self._follow()
                ended = True
            except KubeError as error:
                if not self._stopped.is_set():
                    asked = self._judge(error)
            except Exception as error:  # noqa: BLE001 -- a copy that silently ends to be followed is worse
                self._tell(f"{self._resource.plural}: {type(error).__name__}: {error}")
            lived = time.monotonic() - begun >= _SHORT
            if lived:
                self._backoff.reset()
            if not (ended and lived):
                self._stopped.wait(self._backoff.next(at_least=asked))
        self._client.close()

    def _follow(self) -> None:
        """Read the list if there is no version to go on from, and follow one watch to its end. Raises KubeError."""
        if not self._version:
            self._read_list()
        events = self._client.watch(self._resource, self._version, self._selection)
        self._tell("")
        try:
            for event in events:
                self._backoff.reset()
                if event.type in {"ADDED", "MODIFIED", "DELETED"}:
                    self._follow_event(event)
                self._version = _version(event.object) or self._version
        finally:
            events.close()

    def _judge(self, error: KubeError) -> float:
        """Tell users of an error, and return the seconds that the server asks to wait.

        A version that is too old is no problem: the list is read again.
        """
        if isinstance(error, ApiError) and error.is_expired:
            self._version = ""
        else:
            self._tell(str(error))
        return error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0

    def _read_list(self) -> None:
        """Replace the copy by the list, which also tells of objects that went unseen. Raises KubeError."""
        listed: dict[str, T] = {}
        version = ""
        for page in self._client.list_pages(self._resource, self._selection, self._page):
            if page.restarted:
                listed.clear()
            listed.update((_key(each), self._keep(each)) for each in page.items)
            version = page.resource_version
        if not version:
            raise ConnectionLostError(f"the list of {self._resource.plural} has no resourceVersion")
        with self._lock:
            before, self._objects = self._objects, listed
            changed = {
                key for key in before.keys() | listed.keys() if before.get(key, _MISSING) != listed.get(key, _MISSING)
            }
            is_first, self._synced = not self._synced, True
            self._note(changed, wake=is_first)
        self._version = version

    def _follow_event(self, event: WatchEvent) -> None:
        """Change the copy as an event says; one that came twice changes nothing."""
        key = _key(event.object)
        value = _MISSING if event.type == "DELETED" else self._keep(event.object)
        with self._lock:
            if self._objects.get(key, _MISSING) == value:
                return
            if value is _MISSING:
                del self._objects[key]
            else:
                self._objects[key] = value
            self._note({key})

    def _tell(self, problem: str) -> None:
        """Show a problem, or with an empty one its end, and wake the consumer if that is new."""
        with self._lock:
            is_new, self._problem = problem != self._problem, problem
            self._note(set(), wake=is_new)

    def _note(self, changed: set[str], *, wake: bool = False) -> None:
        """Wake the consumer for changed keys; the lock is held."""
        self._changed |= changed
        if changed or wake:
            os.eventfd_write(self._descriptor, 1)


def _key(content: Object) -> str:
    metadata = content.get("metadata") or {}
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str) or not name:
        raise ConnectionLostError(f"an object without a name: {str(content)[:100]}")
    return f"{namespace}/{name}" if namespace else name


def _version(content: Object) -> str:
    return str((content.get("metadata") or {}).get("resourceVersion") or "")
