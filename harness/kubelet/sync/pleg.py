"""The pod life cycle event generator: it lists all containers, and tells what changed (pleg/generic.go).

kubelet lists each second. Containers that have just started often change soon, init containers above all, so the lists
after a request come at shorter distances at first.
"""

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.cri.messages import ContainerState, PodSandboxState
from harness.cri.service import RuntimeService, RuntimeServiceError
from harness.kubelet.labels import CONTAINER_NAME, POD_UID

if TYPE_CHECKING:
    from collections.abc import Callable

CONTAINER_STARTED: Final = "ContainerStarted"
CONTAINER_DIED: Final = "ContainerDied"
CONTAINER_REMOVED: Final = "ContainerRemoved"
_CHANGED: Final = "ContainerChanged"

_RUNNING: Final = "running"
_EXITED: Final = "exited"
_UNKNOWN: Final = "unknown"
_STATES: Final = {ContainerState.EXITED: _EXITED, ContainerState.RUNNING: _RUNNING}
"""The states in PLEG's terms, in which a created container is of unknown state."""

_PERIOD_S: Final = 1.0
_FIRST_PERIOD_S: Final = 0.05


class PodLifecycleEvent(NamedTuple):
    """A change of a container, or of a sandbox, of a pod; `container` is its name, empty for a sandbox."""

    uid: str
    type: str
    container_id: str
    container: str


class Pleg(threading.Thread):
    """Relists each second, or when it is asked to, and hands each change to `on_event`, which is set before `start`.

    After a request, periods double from 0.05 s to a second.
    """

    def __init__(self, service: RuntimeService) -> None:
        super().__init__(name="pleg", daemon=True)
        self._service = service
        self.on_event: Callable[[PodLifecycleEvent], None] = lambda _: None
        self._states: dict[str, tuple[str, str, str]] = {}
        self._wanted = threading.Event()
        self._ended = False
        self.error = ""

    def relist_now(self) -> None:
        """Have the next relist begin at once."""
        self._wanted.set()

    def close(self) -> None:
        """End the thread."""
        self._ended = True
        self._wanted.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        """Relist until `close`."""
        period_s = _PERIOD_S
        while not self._ended:
            self.relist()
            if self._wanted.wait(period_s):
                self._wanted.clear()
                period_s = _FIRST_PERIOD_S
            else:
                period_s = min(period_s * 2, _PERIOD_S)

    def relist(self) -> None:
        """Compare all sandboxes and containers with those of the last time."""
        try:
            now = self._listed()
        except (RuntimeServiceError, OSError) as error:
            self.error = f"PLEG is not healthy: {error}"
            return
        self.error = ""
        before, self._states = self._states, now
        for key in dict.fromkeys([*before, *now]):
            for type in _events(before.get(key), now.get(key)):
                uid, container, _ = now.get(key) or before[key]
                self.on_event(PodLifecycleEvent(uid, type, key, container))

    def _listed(self) -> dict[str, tuple[str, str, str]]:
        """Return pod UID, name and state of each container and sandbox by ID."""
        found = {}
        for sandbox in self._service.list_pod_sandbox():
            state = _RUNNING if sandbox.state is PodSandboxState.READY else _EXITED
            found[sandbox.id] = (sandbox.metadata.uid, "", state)
        for container in self._service.list_containers():
            uid, name = container.labels.get(POD_UID, ""), container.labels.get(CONTAINER_NAME, "")
            found[container.id] = (uid, name, _STATES.get(container.state, _UNKNOWN))
        return found


def _events(before: tuple[str, str, str] | None, now: tuple[str, str, str] | None) -> tuple[str, ...]:
    """Return the types of events that lie between two states (generateEvents)."""
    was = before[2] if before else ""
    state = now[2] if now else ""
    if was == state:
        return ()
    if state == _RUNNING:
        return (CONTAINER_STARTED,)
    if state == _EXITED:
        return (CONTAINER_DIED,)
    if state == _UNKNOWN:
        return (_CHANGED,)
    return (CONTAINER_REMOVED,) if was == _EXITED else (CONTAINER_DIED, CONTAINER_REMOVED)
