"""What changes between two lists of a runtime's containers, and when lists are made."""

import time
from collections.abc import Mapping
from typing import Any, cast

from harness.cri.messages import (
    Container,
    ContainerMetadata,
    ContainerState,
    PodSandboxMetadata,
    PodSandboxState,
    PodSandboxStatus,
)
from harness.cri.service import RuntimeService, RuntimeServiceError
from harness.kubelet.labels import CONTAINER_NAME, POD_UID
from harness.kubelet.sync.pleg import Pleg
from tests.nodes import until


class Lists:
    """The two calls that PLEG makes, answered from fields."""

    def __init__(self) -> None:
        self.sandboxes: list[PodSandboxStatus] = []
        self.containers: list[Container] = []
        self.fails = False
        self.times: list[float] = []

    def list_pod_sandbox(self, labels: Mapping[str, str] | None = None) -> list[PodSandboxStatus]:
        assert not labels
        self.times.append(time.monotonic())
        if self.fails:
            raise RuntimeServiceError("away")
        return self.sandboxes

    def list_containers(self, pod_sandbox_id: str = "", labels: Mapping[str, str] | None = None) -> list[Container]:
        assert not labels
        assert not pod_sandbox_id
        return self.containers


def container(state: ContainerState, container_id: str = "c1") -> Container:
    return Container(
        id=container_id,
        pod_sandbox_id="s1",
        metadata=ContainerMetadata(name="app"),
        state=state,
        created_at=1,
        labels={POD_UID: "u1", CONTAINER_NAME: "app"},
    )


def sandbox(state: Any) -> PodSandboxStatus:
    metadata = PodSandboxMetadata(name="web", uid="u1", namespace="default")
    return PodSandboxStatus(id="s1", metadata=metadata, state=state, created_at=1)


def pleg_of(lists: Lists) -> tuple[Pleg, list[tuple[str, str, str]]]:
    events: list[tuple[str, str, str]] = []
    pleg = Pleg(cast("RuntimeService", lists))
    pleg.on_event = lambda event: events.append((event.type, event.container_id, event.container))
    return pleg, events


def test_each_change_is_one_event() -> None:
    lists = Lists()
    pleg, events = pleg_of(lists)
    expected = []
    for state, type in (
        (ContainerState.CREATED, "ContainerChanged"),
        (ContainerState.RUNNING, "ContainerStarted"),
        (ContainerState.EXITED, "ContainerDied"),
        (None, "ContainerRemoved"),
    ):
        lists.containers = [container(state)] if state is not None else []
        pleg.relist()
        pleg.relist()
        expected.append((type, "c1", "app"))

        assert events == expected


def test_a_running_container_that_vanishes_has_died_and_was_removed() -> None:
    lists = Lists()
    pleg, events = pleg_of(lists)
    lists.containers = [container(ContainerState.RUNNING)]
    pleg.relist()
    lists.containers = []

    pleg.relist()

    assert [type for type, _, _ in events[1:]] == ["ContainerDied", "ContainerRemoved"]


def test_a_sandbox_counts_as_a_container_without_a_name() -> None:
    lists = Lists()
    pleg, events = pleg_of(lists)
    for state in (PodSandboxState.READY, PodSandboxState.NOTREADY):
        lists.sandboxes = [sandbox(state)]
        pleg.relist()

    assert events == [("ContainerStarted", "s1", ""), ("ContainerDied", "s1", "")]


def test_a_runtime_that_does_not_answer_is_the_error_until_it_does() -> None:
    lists = Lists()
    pleg, events = pleg_of(lists)
    lists.containers = [container(ContainerState.RUNNING)]
    pleg.relist()
    lists.fails = True
    pleg.relist()

    assert pleg.error == "PLEG is not healthy: away"

    lists.fails = False
    pleg.relist()
    assert pleg.error == ""
    assert len(events) == 1


def test_a_request_makes_the_next_lists_come_soon() -> None:
    lists = Lists()
    pleg, _ = pleg_of(lists)
    pleg.start()
    until(lambda: len(lists.times) == 1)
    asked = time.monotonic()

    pleg.relist_now()

    # One at once, and two more before the second of the usual distance is over, on a processor with time for it.
    until(lambda: len(lists.times) >= 4)
    pleg.close()
    assert lists.times[1] - asked < 1
    distances = [after - before for before, after in zip(lists.times[1:], lists.times[2:], strict=False)]
    assert min(distances) < 0.9
