import itertools

import pytest

from harness.cri.builtin import container_states
from harness.cri.builtin.container_states import TABLE, ContainerEvent, state_of
from harness.cri.builtin.transitions import StateError
from harness.cri.messages import ContainerState


def test_the_module_shows_the_drawing_of_its_table() -> None:
    assert TABLE.drawing() in (container_states.__doc__ or "")


def test_every_state_of_the_files_can_be_loaded() -> None:
    for flags in itertools.product([False, True], repeat=4):
        names = ("shim_started", "shim_alive", "process", "exited")
        TABLE.check(None, ContainerEvent.LOAD, state_of(**dict(zip(names, flags, strict=True))))


@pytest.mark.parametrize("before", [ContainerState.RUNNING, ContainerState.EXITED])
def test_a_container_starts_once(before: ContainerState) -> None:
    assert not TABLE.allows(before, ContainerEvent.START)
    with pytest.raises(StateError, match=f"start: no way from {before.name} to RUNNING"):
        TABLE.check(before, ContainerEvent.START, ContainerState.RUNNING)


def test_each_state_can_be_left_and_ends_removed() -> None:
    edges = {(each.before, each.after) for each in TABLE.transitions}
    for state in (ContainerState.CREATED, ContainerState.RUNNING, ContainerState.EXITED):
        assert (state, None) in edges or any(before is state and after is not state for before, after in edges)
    assert (ContainerState.RUNNING, None) not in edges
