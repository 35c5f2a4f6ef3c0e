"""The workers of pods, a thread for each UID; the pods of one name take turns (kubelet's pod_workers.go).

A worker goes through the life of `pod_states` (podWorkerLoop).
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from api.pod import V1Pod
from fast_stdlib import recorded_by, recorder, span
from harness.kubelet.status.start_errors import NETWORK_NOT_READY
from harness.kubelet.sync.container_kill import grace_period
from harness.kubelet.sync.pod_states import POD_LIFE, PodEvent, PodWorkerState
from harness.kubelet.sync.pod_sync import PodSync, SyncError

_SYNC_FREQUENCY_S: Final = 60.0  # kubelet's --sync-frequency
_BACKOFF_S: Final = 10.0  # its backOffPeriod
_NETWORK_S: Final = 1.0  # its backOffOnTransientErrorPeriod
_JITTER: Final = 0.5  # its workerResyncIntervalJitterFactor
_LOOK_S: Final = 1.0
"""How often kubelet looks for pods beyond their deadline (its syncCh)."""
_STEPS: Final = {
    PodWorkerState.SYNC: "syncPod",
    PodWorkerState.TERMINATING: "SyncTerminatingPod",
    PodWorkerState.TERMINATED: "SyncTerminatedPod",
}
"""The names of the states' functions in kubelet.go, for spans."""


class PodWorker(threading.Thread):
    """The thread of one pod. With `waits`, it waits for `begin`; `on_finish` is called at its end, in this thread."""

    def __init__(
        self,
        pod: V1Pod,
        functions: PodSync,
        state: PodWorkerState,
        *,
        on_error: Callable[[V1Pod, str], None],
        on_finish: Callable[["PodWorker"], None],
        waits: bool,
    ) -> None:
        super().__init__(name=f"pod-{pod.metadata.name}", daemon=True)
        self.pod = pod
        self.state = state
        self._functions = functions
        self._on_error = on_error
        self._on_finish = on_finish
        self._waits = waits
        self._changed = threading.Condition()
        self._due = 0.0
        self._kill = False
        self._grace_s: int | None = None
        self._terminates = False
        self._ended = False
        self.syncs = 0
        taking = recorder()
        self._recorder = None if taking is None else taking.branch(pod.metadata.name)

    def wake(self, pod: V1Pod | None = None) -> None:
        """Have the worker look again now, with a changed manifest if one is given."""
        with self._changed:
            self.pod = pod or self.pod
            self._due = 0.0
            self._changed.notify()

    def begin(self) -> None:
        """Have a waiting worker begin."""
        with self._changed:
            self._waits = False
            self._changed.notify()

    def kill(self, grace_s: int | None) -> None:
        """End the pod; a shorter grace period replaces a longer one, also while the containers are being stopped."""
        with self._changed:
            present = grace_period(self.pod) if self._grace_s is None else self._grace_s
            is_shorter = grace_s is not None and grace_s < present
            if self._kill and not is_shorter:
                return
            if grace_s is not None and (is_shorter or self._grace_s is None):
                self._grace_s = grace_s
            self._kill = True
            self._due = 0.0
            self._changed.notify()
            is_cut_short = self._terminates and is_shorter
        if is_cut_short and grace_s is not None:
            threading.Thread(target=self._stop_sooner, args=(grace_s,), name=f"{self.name}-stop", daemon=True).start()

    def _stop_sooner(self, grace_s: int) -> None:
        """Do what kubelet's cancellation of a stop, and its repetition, come to."""
        try:
            self._functions.stop_sooner(self.pod, grace_s)
        except (SyncError, OSError) as error:
            self._on_error(self.pod, str(error))

    def end(self) -> None:
        """End the thread after its present step; the pod stays as it is."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def run(self) -> None:
        """Go through the states until the last."""
        with recorded_by(self._recorder):
            self._live()

    def _live(self) -> None:
        while self.state is not PodWorkerState.FINISHED:
            with self._changed:
                while not self._ended and not (self._kill if self._waits else time.monotonic() >= self._due):
                    self._changed.wait(None if self._waits else max(0.0, self._due - time.monotonic()))
                if self._ended:
                    return
                self._due = float("inf")
                if self._waits:  # it is killed before it has started anything
                    self.state = POD_LIFE.after(self.state, PodEvent.NEVER_STARTED)
                    break
            if self._kill and self.state is PodWorkerState.SYNC:
                self.state = POD_LIFE.after(self.state, PodEvent.KILLED)
            event, delay_s = self._step()
            if self.state is PodWorkerState.SYNC:
                delay_s = min(delay_s, max(_LOOK_S, self._functions.seconds_left(self.pod)))
            with self._changed:
                self.state = POD_LIFE.after(self.state, event)
                # A request that came meanwhile has set an earlier time.
                self._due = min(self._due, time.monotonic() + delay_s)
                self.syncs += 1
        self._on_finish(self)

    def _step(self) -> tuple[PodEvent, float]:
        """Do the function of the state; return the outcome, and the seconds until the next step."""
        pod, step = self.pod, _STEPS.get(self.state, "")
        try:
            with span(step, waits=True, pod=f"{pod.metadata.namespace}/{pod.metadata.name}"):
                return self._carry_out(pod)
        except (SyncError, OSError) as error:
            self._on_error(pod, str(error))
            return PodEvent.FAILED, _delay_s(error)
        except Exception as error:  # noqa: BLE001 - told and repeated, as kubelet does after a panic; a thread would end
            self._on_error(pod, f"unexpected {type(error).__name__}: {error}")
            return PodEvent.FAILED, _delay_s(error)

    def _carry_out(self, pod: V1Pod) -> tuple[PodEvent, float]:
        """Do the function of the state. Raises SyncError, OSError."""
        if self.state is PodWorkerState.SYNC:
            ended = self._functions.sync(pod)
            return (PodEvent.ENDED, 0.0) if ended else (PodEvent.SYNCED, _jittered(_SYNC_FREQUENCY_S))
        if self.state is PodWorkerState.TERMINATING:
            self._terminate(pod)
            return PodEvent.STOPPED, 0.0
        self._functions.finish(pod)
        return PodEvent.CLEANED, 0.0

    def _terminate(self, pod: V1Pod) -> None:
        with self._changed:
            grace_s, self._terminates = self._grace_s, True
        try:
            self._functions.terminate(pod, grace_s)
        finally:
            with self._changed:
                self._terminates = False


def _delay_s(error: Exception) -> float:
    if isinstance(error, SyncError) and error.retry_s is not None:
        return min(error.retry_s, _SYNC_FREQUENCY_S)
    return _jittered(_NETWORK_S if NETWORK_NOT_READY in str(error) else _BACKOFF_S)


def _jittered(seconds: float) -> float:
    """Lengthen a time by up to the half, so that pods do not move in step."""
    return seconds * (1 + random.random() * _JITTER)  # noqa: S311 - spreads load, keeps no secret


@dataclass(frozen=True)
class PodWorkers:
    """The workers of all pods; methods may be called from any thread.

    A pod waits for the end of an earlier one of its namespace and name, as static pods do. `on_finish` is called at
    each worker's end, in the worker's thread.
    """

    functions: PodSync
    _: KW_ONLY
    on_error: Callable[[V1Pod, str], None]
    on_finish: Callable[[], None] = lambda: None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _workers: dict[str, PodWorker] = field(default_factory=dict)

    def update(self, pod: V1Pod, *, state: PodWorkerState = PodWorkerState.SYNC) -> None:
        """Start the worker of a new pod, in `state`, or wake that of a known one."""
        with self._lock:
            worker = self._workers.get(pod.metadata.uid)
            if worker is None:
                waits = state is PodWorkerState.SYNC and bool(self._others(pod))
                worker = PodWorker(
                    pod, self.functions, state, on_error=self.on_error, on_finish=self._finished, waits=waits
                )
                self._workers[pod.metadata.uid] = worker
                worker.start()
                return
        worker.wake(pod)

    def _others(self, pod: V1Pod) -> list[PodWorker]:
        """Return unfinished workers of pods with the same namespace and name, the oldest first."""
        return [
            worker
            for worker in self._workers.values()
            if _full_name(worker.pod) == _full_name(pod)
            and worker.pod.metadata.uid != pod.metadata.uid
            and worker.state is not PodWorkerState.FINISHED
        ]

    def _finished(self, ended: PodWorker) -> None:
        """Let the next pod of the name begin."""
        with self._lock:
            waiting = self._others(ended.pod)
        if waiting:
            waiting[0].begin()
        self.on_finish()

    def wake(self, uid: str) -> None:
        """Have the worker of a pod look again; an unknown UID is fine."""
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()

    def kill(self, uid: str, grace_s: int | None = None) -> None:
        """End a pod; an unknown UID is fine."""
        worker = self._workers.get(uid)
        if worker is not None:
            worker.kill(grace_s)

    def state(self, uid: str) -> PodWorkerState | None:
        """Return the state of a pod's worker; None if it has none."""
        worker = self._workers.get(uid)
        return None if worker is None else worker.state

    def syncs(self, uid: str) -> int:
        """Return how many steps a worker has done."""
        worker = self._workers.get(uid)
        return 0 if worker is None else worker.syncs

    def forget(self, uid: str) -> None:
        """Forget a finished worker."""
        with self._lock:
            worker = self._workers.get(uid)
            if worker is not None and worker.state is PodWorkerState.FINISHED:
                del self._workers[uid]

    def uids(self) -> list[str]:
        """Return the UIDs of all workers."""
        with self._lock:
            return list(self._workers)

    def close(self) -> None:
        """End all threads after their present steps; the pods stay."""
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.end()
        for worker in workers:
            worker.join()


def _full_name(pod: V1Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name
