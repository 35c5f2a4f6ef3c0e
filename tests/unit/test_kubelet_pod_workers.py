"""The order of a pod's worker: functions without a runtime note what they were called for."""

import math
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from api.pod import V1Pod
from harness.kubelet.sync.pod_states import PodWorkerState
from harness.kubelet.sync.pod_sync import PodSync, SyncError
from harness.kubelet.sync.pod_workers import PodWorkers
from tests.nodes import until


def described(uid: str, name: str = "web") -> V1Pod:
    return V1Pod.decode({"metadata": {"name": name, "namespace": "default", "uid": uid}, "spec": {"containers": []}})


class Functions:
    """Notes each call. `failures` calls of `sync` fail, and `terminations_fail` of `terminate`, which `gate` holds."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failures = 0
        self.terminations_fail = 0
        self.ends = False
        self.bug: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def sync(self, pod: V1Pod) -> bool:
        self.calls.append(f"sync {pod.metadata.uid}")
        if self.failures:
            self.failures -= 1
            raise SyncError("not yet", retry_s=0.01)
        if self.bug is not None:
            raise self.bug
        return self.ends

    def seconds_left(self, pod: V1Pod) -> float:
        del pod
        return math.inf

    def terminate(self, pod: V1Pod, grace_s: int | None) -> None:
        self.calls.append(f"terminate {pod.metadata.uid} {grace_s}")
        self.gate.wait(60)
        if self.terminations_fail:
            self.terminations_fail -= 1
            raise SyncError("not yet", retry_s=0.01)

    def stop_sooner(self, pod: V1Pod, grace_s: int) -> None:
        self.calls.append(f"stop_sooner {pod.metadata.uid} {grace_s}")
        self.gate.set()

    def finish(self, pod: V1Pod) -> None:
        self.calls.append(f"finish {pod.metadata.uid}")


@pytest.fixture
def functions() -> Functions:
    return Functions()


@pytest.fixture
def errors() -> list[str]:
    return []


@pytest.fixture
def workers(functions: Functions, errors: list[str]) -> Iterator[PodWorkers]:
    made = PodWorkers(
        cast("PodSync", functions), on_error=lambda pod, text: errors.append(f"{pod.metadata.uid}: {text}")
    )
    yield made
    functions.gate.set()
    made.close()


def has_finished(workers: PodWorkers, uid: str) -> bool:
    return workers.state(uid) is PodWorkerState.FINISHED


def test_a_pod_is_synced_terminated_and_finished(workers: PodWorkers, functions: Functions) -> None:
    workers.update(described("1"))
    until(lambda: workers.syncs("1") == 1)

    workers.kill("1", 7)

    until(lambda: has_finished(workers, "1"))
    assert functions.calls == ["sync 1", "terminate 1 7", "finish 1"]
    workers.forget("1")
    assert workers.uids() == []


def test_a_pod_that_ends_by_itself_is_terminated(workers: PodWorkers, functions: Functions) -> None:
    functions.ends = True

    workers.update(described("1"))

    until(lambda: has_finished(workers, "1"))
    assert functions.calls == ["sync 1", "terminate 1 None", "finish 1"]


def test_failed_sync_is_reported_and_repeated(workers: PodWorkers, functions: Functions, errors: list[str]) -> None:
    functions.failures = 2

    workers.update(described("1"))

    until(lambda: functions.calls == ["sync 1"] * 3)
    assert errors == ["1: not yet"] * 2


def test_unexpected_error_is_reported_and_the_worker_continues(
    workers: PodWorkers, functions: Functions, errors: list[str]
) -> None:
    functions.bug = ExceptionGroup("containers", [KeyError("id")])
    workers.update(described("1"))
    until(lambda: len(errors) == 1)
    functions.bug = None

    workers.wake("1")

    until(lambda: workers.syncs("1") == 2)
    assert errors == ["1: unexpected ExceptionGroup: containers (1 sub-exception)"]
    assert workers.state("1") is PodWorkerState.SYNC


def test_the_shortest_grace_period_counts(workers: PodWorkers, functions: Functions) -> None:
    functions.gate.clear()
    workers.update(described("0"))
    until(lambda: workers.syncs("0") == 1)

    workers.kill("0", 5)
    until(lambda: "terminate 0 5" in functions.calls)
    workers.kill("0", 9)
    functions.terminations_fail = 1
    functions.gate.set()

    until(lambda: has_finished(workers, "0"))
    assert [call for call in functions.calls if call.startswith("terminate 0")] == ["terminate 0 5"] * 2


def test_a_shorter_grace_period_ends_a_termination_sooner(workers: PodWorkers, functions: Functions) -> None:
    functions.gate.clear()
    workers.update(described("0"))
    workers.kill("0", 5)
    until(lambda: "terminate 0 5" in functions.calls)

    for grace_s in (9, 5, None, 2, 2):
        workers.kill("0", grace_s)

    until(lambda: has_finished(workers, "0"))
    assert [call for call in functions.calls if call.startswith("stop_sooner")] == ["stop_sooner 0 2"]


def test_a_pod_waits_for_the_end_of_an_earlier_one_of_its_name(workers: PodWorkers, functions: Functions) -> None:
    functions.gate.clear()
    workers.update(described("old"))
    until(lambda: workers.syncs("old") == 1)
    workers.kill("old")
    until(lambda: "terminate old None" in functions.calls)

    for uid in ("newer", "newest"):
        workers.update(described(uid))
    workers.update(described("other", name="other"))
    until(lambda: workers.syncs("other") == 1)
    workers.kill("newer")
    until(lambda: has_finished(workers, "newer"))
    assert not any("new" in call for call in functions.calls)
    functions.gate.set()

    until(lambda: workers.syncs("newest") == 1)
    calls = [call for call in functions.calls if "other" not in call]
    assert calls == ["sync old", "terminate old None", "finish old", "sync newest"]


def test_closing_leaves_the_pods(functions: Functions) -> None:
    workers = PodWorkers(cast("PodSync", functions), on_error=lambda _pod, _text: None)
    workers.update(described("1"))
    until(lambda: workers.syncs("1") == 1)

    workers.close()

    assert functions.calls == ["sync 1"]
    assert not any(thread.name == "pod-web" for thread in threading.enumerate())
