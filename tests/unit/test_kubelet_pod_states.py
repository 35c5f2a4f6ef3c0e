"""The life of a pod's worker: forward only, until finished."""

import pytest

from harness.cri.messages import PodSandboxState
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus
from harness.kubelet.sync.pod_states import POD_LIFE, PodEvent, PodWorkerState, first_state
from harness.transitions import TransitionError
from tests.unit.kubelet_objects import attempt, dead_sandbox, exited, runtime, sandbox

ORDER = list(PodWorkerState)


def after(*events: PodEvent) -> PodWorkerState:
    state = POD_LIFE.start
    for event in events:
        state = POD_LIFE.after(state, event)
    return state


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ("", "sync"),
        ("SYNCED FAILED SYNCED", "sync"),
        ("SYNCED KILLED", "terminating"),
        ("SYNCED ENDED", "terminating"),
        ("KILLED FAILED", "terminating"),
        ("KILLED STOPPED", "terminated"),
        ("KILLED STOPPED FAILED", "terminated"),
        ("KILLED STOPPED CLEANED", "finished"),
        ("NEVER_STARTED", "finished"),
    ],
)
def test_pod_worker_state_follows_events(events: str, state: str) -> None:
    assert after(*(PodEvent(event) for event in events.split())) == state


def test_pod_worker_state_never_goes_back() -> None:
    for state in PodWorkerState:
        for event in PodEvent:
            try:
                following = POD_LIFE.after(state, event)
            except TransitionError:
                continue
            assert ORDER.index(following) >= ORDER.index(state)


@pytest.mark.parametrize("event", list(PodEvent))
def test_finished_worker_takes_no_event(event: PodEvent) -> None:
    with pytest.raises(TransitionError):
        POD_LIFE.after(PodWorkerState.FINISHED, event)


@pytest.mark.parametrize("state", [PodWorkerState.TERMINATING, PodWorkerState.TERMINATED])
def test_ending_worker_never_syncs_again(state: PodWorkerState) -> None:
    with pytest.raises(TransitionError):
        POD_LIFE.after(state, PodEvent.SYNCED)


def test_drawing_has_every_state_and_one_end() -> None:
    drawing = POD_LIFE.drawing()

    assert "[*] --> sync\n" in drawing
    assert [line.strip() for line in drawing.splitlines() if line.endswith("[*]")] == ["finished --> [*]"]
    assert all(f"--> {state} :" in drawing for state in PodWorkerState)


ENDED = runtime(exited("a"), sandboxes=[dead_sandbox()])


@pytest.mark.parametrize(
    ("phase", "status", "expected"),
    [
        ("Succeeded", ENDED, "terminated"),
        ("Failed", ENDED, "terminated"),
        ("Failed", runtime(sandboxes=()), "terminated"),
        ("Running", ENDED, "sync"),
        ("", ENDED, "sync"),
        ("Failed", runtime(attempt("a"), sandboxes=[dead_sandbox()]), "sync"),
        ("Failed", runtime(exited("a"), sandboxes=[sandbox(0, PodSandboxState.READY)]), "sync"),
    ],
)
def test_first_state(phase: str, status: RuntimePodStatus, expected: str) -> None:
    assert first_state(phase, status) == expected
