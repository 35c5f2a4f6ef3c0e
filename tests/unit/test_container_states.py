"""The life of a container of the built-in runtime, and the state that its files stand for."""

import pytest

from harness.containerd.container_states import CONTAINER_LIFE, ContainerEvent, state_of
from harness.cri.messages import ContainerState


@pytest.mark.parametrize("before", [ContainerState.RUNNING, ContainerState.EXITED])
def test_a_container_starts_once(before: ContainerState) -> None:
    assert CONTAINER_LIFE.allows(ContainerState.CREATED, ContainerEvent.START)
    assert not CONTAINER_LIFE.allows(before, ContainerEvent.START)


@pytest.mark.parametrize("event", list(ContainerEvent))
def test_a_container_that_has_exited_stays_so(event: ContainerEvent) -> None:
    assert not CONTAINER_LIFE.allows(ContainerState.EXITED, event)


NEW = {"shim_started": False, "shim_alive": False, "process": False, "exited": False}
BEGUN = NEW | {"shim_started": True, "shim_alive": True}
RUNS = BEGUN | {"process": True}


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (BEGUN, ContainerEvent.START, RUNS),
        (NEW, ContainerEvent.START_FAILED, NEW | {"exited": True}),
        (BEGUN, ContainerEvent.START_FAILED, BEGUN | {"exited": True}),
        (BEGUN, ContainerEvent.SHIM_LOST, BEGUN | {"shim_alive": False}),
        (RUNS, ContainerEvent.EXIT, RUNS | {"exited": True}),
        (RUNS, ContainerEvent.SHIM_LOST, RUNS | {"shim_alive": False}),
    ],
)
def test_the_files_follow_the_table(before: dict[str, bool], event: ContainerEvent, after: dict[str, bool]) -> None:
    assert CONTAINER_LIFE.after(state_of(**before), event) is state_of(**after)
