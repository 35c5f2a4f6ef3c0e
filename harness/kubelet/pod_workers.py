"""A worker per pod UID; the pods of one name take turns (kubelet's pod_workers.go)."""

import threading
from collections.abc import Callable

from harness.kubelet.pod_states import PodWorkerState
from harness.kubelet.pod_worker import PodFunctions, PodWorker
from harness.kubelet.v1 import V1Pod


class PodWorkers:
    """The workers of all pods; methods may be called from any thread.

    A pod waits for the end of an earlier one of its namespace and name, as static pods do. `on_finish` is called at
    each worker's end, in the worker's thread.
    """

    def __init__(
        self,
        functions: PodFunctions,
        *,
        on_error: Callable[[V1Pod, str], None],
        on_finish: Callable[[], None] = lambda: None,
    ) -> None:
        self._functions = functions
        self._on_error = on_error
        self._on_finish = on_finish
        self._lock = threading.Lock()
        self._workers: dict[str, PodWorker] = {}

    def update(self, pod: V1Pod, *, state: PodWorkerState = PodWorkerState.SYNC) -> None:
        """Start the worker of a new pod, in `state`, or wake that of a known one."""
        with self._lock:
            worker = self._workers.get(pod.metadata.uid)
            if worker is None:
                waits = state is PodWorkerState.SYNC and bool(self._others(pod))
                worker = PodWorker(
                    pod, self._functions, state, on_error=self._on_error, on_finish=self._finished, waits=waits
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
            waiting[0].go()
        self._on_finish()

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
