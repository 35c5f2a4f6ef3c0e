"""The node's agent: it starts its parts in kubelet's order, and gives each pod of its sources to a worker (kubelet.go).

Everything that happens comes to one loop as an event: manifests, changes of containers, probe results, ticks.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from api.pod import V1Metadata, V1Pod
from api.status import FAILED, V1PodStatus
from fast_stdlib import span
from harness.cri.messages import PodSandboxMetadata
from harness.cri.service import RuntimeService, RuntimeServiceError
from harness.kubelet.admission import NodeFacts, admit
from harness.kubelet.events import WARNING, EventRecorder
from harness.kubelet.garbage import GarbageCollector
from harness.kubelet.labels import CONFIG_SOURCE, POD_UID
from harness.kubelet.pod_records import PodRecords
from harness.kubelet.pod_resources import qos_class
from harness.kubelet.probes.results import Probes
from harness.kubelet.sources import RUN_SOURCE
from harness.kubelet.status.api_status import is_terminal_phase
from harness.kubelet.status.runtime_pod_status import runtime_pod_status
from harness.kubelet.sync.pleg import CONTAINER_DIED, CONTAINER_REMOVED, Pleg, PodLifecycleEvent
from harness.kubelet.sync.pod_states import PodWorkerState, first_state
from harness.kubelet.sync.pod_sync import PodSync
from harness.kubelet.sync.pod_workers import PodWorkers

_HOUSEKEEPING_S: Final = 2.0  # kubelet's housekeepingPeriod
_GARBAGE_S: Final = 60.0  # its ContainerGCPeriod
_ORPHAN_GRACE_S: Final = 1
_LOOK_S: Final = 0.1


class KubeletParts(NamedTuple):
    """The parts of a kubelet.

    With `owns_runtime`, the runtime has no other user: a pod that is not on record is an orphan, and is ended. A
    runtime behind a socket may have another kubelet's pods.
    """

    service: RuntimeService
    functions: PodSync
    records: PodRecords
    events: EventRecorder
    pleg: Pleg
    garbage: GarbageCollector
    probes: Probes
    node: NodeFacts
    say: Callable[[str], None]
    owns_runtime: bool = True


class Kubelet:
    """A kubelet; `run` is for one thread, the other methods for any."""

    def __init__(self, parts: KubeletParts) -> None:
        self._parts = parts
        self._pods: dict[str, V1Pod] = {}
        self._rejected: set[str] = set()
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._restarts: set[str] = set()
        self._sources_seen = False
        on_finish = partial(self._queue.put, self._look_soon)
        self._workers = PodWorkers(parts.functions, on_error=self._log_error, on_finish=on_finish)
        self._pleg = parts.pleg
        self._pleg.on_event = lambda event: self._queue.put(lambda: self._on_event(event))
        self._housekeeping_at = 0.0
        self._garbage_at = time.monotonic() + _GARBAGE_S
        self._stopped = threading.Event()
        for results in parts.probes:
            results.on_change(lambda update: self._queue.put(lambda: self._workers.wake(update.pod_uid)))

    def start(self) -> None:
        """Start the threads, after all that they need: PLEG, then the loop that `run` is."""
        with span("pleg.Start"):
            self._pleg.start()

    def set_pods(self, pods: Sequence[V1Pod]) -> None:
        """Have exactly these pods: new ones are admitted and started, missing ones are ended."""
        self._queue.put(lambda: self._set_pods(pods))

    def pods(self) -> list[tuple[V1Pod, V1PodStatus]]:
        """Return the pods and their statuses, by namespace and name."""
        pods = sorted(self._pods.values(), key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
        return [(pod, self._parts.records.status(pod.metadata.uid) or V1PodStatus()) for pod in pods]

    def stop(self) -> None:
        """End `run`; may be called from a signal's handler. The pods stay."""
        self._stopped.set()
        self._queue.put(lambda: None)

    def run(self, *, until: Callable[[], bool] | None = None) -> None:
        """Handle events until `stop`, or until `until` is true (kubelet's syncLoop)."""
        longest = _HOUSEKEEPING_S if until is None else _LOOK_S
        with span("syncLoop", waits=True):
            while not self._stopped.is_set() and not (until is not None and until()):
                wait = max(0.0, min(self._housekeeping_at, self._garbage_at) - time.monotonic())
                with suppress(queue.Empty):
                    wait = min(wait, longest) if self._sources_seen else longest
                    self._warned(self._queue.get(timeout=wait))
                self._tick()

    def close(self) -> None:
        """End all threads; the pods stay."""
        self._workers.close()
        self._pleg.close()

    def health(self) -> str:
        """Return why the kubelet is not well; empty if it is."""
        return self._pleg.error

    def has_synced(self, uid: str) -> bool:
        """Tell whether a pod was rejected, or its worker has done a step."""
        return uid in self._rejected or self._workers.syncs(uid) > 0

    def _set_pods(self, pods: Sequence[V1Pod]) -> None:
        self._sources_seen = True
        wanted = {pod.metadata.uid: pod for pod in pods}
        for uid in [uid for uid in self._pods if uid not in wanted]:
            self._remove(uid)
        for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp):
            uid = pod.metadata.uid
            if uid not in self._pods:
                self._warned(partial(self._add, pod))
            elif self._pods[uid] != pod:
                self._pods[uid] = pod
                self._record(pod)
                self._workers.update(pod)

    def _add(self, pod: V1Pod) -> None:
        """Admit a pod and start its worker (HandlePodAdditions). A pod of its UID that is ending comes first."""
        parts, uid = self._parts, pod.metadata.uid
        self._record(pod)
        if self._workers.state(uid) is not None:
            self._pods[uid] = pod
            self._restarts.add(uid)
            return
        active = list(self._active())
        self._pods[uid] = pod
        if (rejection := admit(pod, active, parts.node)) is not None:
            self._rejected.add(uid)
            parts.events.event(pod, WARNING, rejection.reason, rejection.message)
            status = V1PodStatus(
                phase=FAILED,
                reason=rejection.reason,
                message=f"Pod was rejected: {rejection.message}",
                qos_class=qos_class(pod),
            )
            parts.records.set_status(uid, status)
            return
        before = parts.records.status(uid)
        state = PodWorkerState.SYNC
        if before is not None and is_terminal_phase(before.phase):
            with suppress(RuntimeServiceError):  # the worker asks again
                state = first_state(before.phase, runtime_pod_status(parts.service, uid))
        self._workers.update(pod, state=state)

    def _record(self, pod: V1Pod) -> None:
        """Put a static pod on record. `run` and `delete` write those of `run`: an old one must not undo a deletion."""
        if pod.metadata.annotations.get(CONFIG_SOURCE) != RUN_SOURCE:
            self._warned(partial(self._parts.records.add, pod))

    def _active(self) -> Iterable[V1Pod]:
        for uid, pod in self._pods.items():
            status = self._parts.records.status(uid)
            if uid not in self._rejected and (status is None or not is_terminal_phase(status.phase)):
                yield pod

    def _remove(self, uid: str) -> None:
        if uid in self._rejected:
            self._rejected.discard(uid)
            self._parts.records.remove(uid)
        self._pods.pop(uid, None)
        self._restarts.discard(uid)
        self._workers.kill(uid, self._parts.records.deletion_grace_s(uid))

    def _on_event(self, event: PodLifecycleEvent) -> None:
        if event.type == CONTAINER_DIED and event.container and event.uid in self._pods:
            self._warned(lambda: self._parts.garbage.remove_old(event.uid, event.container))
        if event.type != CONTAINER_REMOVED:
            self._workers.wake(event.uid)

    def _look_soon(self) -> None:
        self._housekeeping_at = 0.0

    def _tick(self) -> None:
        if not self._sources_seen:  # every pod would be one that nobody wants
            return
        now = time.monotonic()
        if now >= self._housekeeping_at:
            self._warned(self._housekeep)
            self._housekeeping_at = time.monotonic() + _HOUSEKEEPING_S
        if now >= self._garbage_at:
            # A pod that ends is wanted until its worker has finished: the worker may be making a sandbox.
            wanted = {*self._pods, *self._workers.uids()}
            others = self._parts.owns_runtime
            self._warned(lambda: self._parts.garbage.collect(wanted.__contains__, others=others))
            self._garbage_at = time.monotonic() + _GARBAGE_S

    def _housekeep(self) -> None:
        """Forget pods that have ended and are not wanted; end those that nobody wants (HandlePodCleanups)."""
        self._forget_ended()
        known = {*self._pods, *self._workers.uids()}
        for pod in self._parts.records.pods():
            if pod.metadata.uid not in known and not _is_new(pod):
                self._workers.update(pod, state=PodWorkerState.TERMINATING)
                known.add(pod.metadata.uid)
            elif pod.metadata.deletion_timestamp:  # perhaps another `delete` has shortened its grace period
                self._workers.kill(pod.metadata.uid, pod.metadata.deletion_grace_period_seconds)
        for uid in self._parts.records.leftovers():
            if uid not in known:
                self._parts.records.remove(uid)
        for sandbox in self._parts.service.list_pod_sandbox() if self._parts.owns_runtime else ():
            if sandbox.labels.get(POD_UID, "") == sandbox.metadata.uid and sandbox.metadata.uid not in known:
                known.add(sandbox.metadata.uid)
                self._workers.update(_pod_of(sandbox.metadata), state=PodWorkerState.TERMINATING)

    def _forget_ended(self) -> None:
        """Forget pods that have ended and are not wanted; start those that are wanted again."""
        for uid in self._workers.uids():
            if self._workers.state(uid) is PodWorkerState.FINISHED and (uid not in self._pods or uid in self._restarts):
                self._parts.garbage.remove_pod(uid)
                self._workers.forget(uid)
                config_maps = self._parts.records.config_maps(uid)
                self._parts.records.remove(uid)
                if uid in self._restarts:
                    self._restarts.discard(uid)
                    self._parts.records.set_config_maps(self._pods[uid], config_maps)
                    self._parts.records.add(self._pods[uid])
                    self._add(self._pods.pop(uid))

    def _warned(self, action: Callable[[], None]) -> None:
        try:
            action()
        except (RuntimeServiceError, OSError) as error:
            self._parts.say(str(error))

    def _log_error(self, pod: V1Pod, message: str) -> None:
        self._parts.say(f"pod {pod.metadata.namespace}/{pod.metadata.name}: {message}")
        self._pleg.relist_now()


def _is_new(pod: V1Pod) -> bool:
    """Tell whether `run` has recorded a pod that the sources have not handed on yet; only a deletion ends such pods."""
    return pod.metadata.annotations.get(CONFIG_SOURCE) == RUN_SOURCE and not pod.metadata.deletion_timestamp


def _pod_of(metadata: PodSandboxMetadata) -> V1Pod:
    """Return a pod of which only the runtime knows: it can be ended, not started."""
    identity = V1Metadata(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid)
    identity.deletion_grace_period_seconds = _ORPHAN_GRACE_S
    return V1Pod(metadata=identity)
