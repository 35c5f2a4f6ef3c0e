"""Which containers garbage collection removes; the containers are those of the built-in runtime, without processes."""

from pathlib import Path

import pytest

from harness.containerd.container_store import ContainerRecord, ContainerStore, Exit
from harness.containerd.sandbox_networks import SandboxNetworks
from harness.containerd.service import BuiltinRuntime
from harness.cri.messages import ContainerConfig, ContainerMetadata
from harness.kubelet.garbage import GarbageCollector
from harness.kubelet.labels import CONTAINER_NAME, POD_UID
from harness.kubelet.paths import KubeletPaths
from harness.runtime.node import Node


class Place:
    """A runtime's folder, and a collector that says nothing unless something fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.store = ContainerStore(folder)

        def open_node() -> Node:
            return Node(None, folder, threads=1)

        networks = SandboxNetworks(open_node, folder, [], warn=self.said.append)
        self.service = BuiltinRuntime(folder, open_node, networks, take_over=False)
        self.garbage = GarbageCollector(self.service, KubeletPaths(folder), warn=self.said.append)

    def container(self, attempt: int, *, ended: bool, uid: str = "u", name: str = "c") -> Path:
        log = self.folder / f"{uid}-{name}-{attempt}.log"
        log.write_text("text")
        record = ContainerRecord(
            id=f"{uid}{name}{attempt}",
            name=f"{uid}_{name}_{attempt}",
            pod_sandbox_id="s",
            created_at=attempt,
            config=ContainerConfig(
                metadata=ContainerMetadata(name=name, attempt=attempt), labels={POD_UID: uid, CONTAINER_NAME: name}
            ),
            log_path=str(log),
            stop_signal=15,
            arguments=[],
        )
        folder = self.store.add(record)
        if ended:
            folder.launch.write_text("{}")
            folder.write_exit(Exit(code=0, finished_at=attempt))
        return log

    def left(self) -> set[str]:
        return {each.id for each in self.service.list_containers()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("ended", "left"),
    [
        ([True, True, True], {"uc2"}),
        ([True, True, False], {"uc1", "uc2"}),
        ([False, True, True], {"uc2"}),
        ([True, False, False], {"uc0", "uc2"}),
    ],
)
def test_newest_ended_and_newest_created_attempts_are_kept(place: Place, ended: list[bool], left: set[str]) -> None:
    for attempt, each in enumerate(ended):
        place.container(attempt, ended=each)

    place.garbage.remove_old("u", "c")
    after_one = place.left()
    place.garbage.collect(lambda _: True)

    assert (after_one, place.left(), place.said) == (left, left, [])


def test_unwanted_pods_lose_containers_and_logs(place: Place) -> None:
    log = place.container(0, ended=True)
    place.container(1, ended=False)
    place.container(0, ended=True, uid="other")

    place.garbage.collect("other".__eq__, others=False)
    assert len(place.left()) == 3
    place.garbage.collect("other".__eq__)

    assert place.left() == {"otherc0"}
    assert not log.exists()


def test_removal_of_a_pod_leaves_others_alone(place: Place) -> None:
    place.container(0, ended=True)
    for attempt in (0, 1):
        place.container(attempt, ended=True, uid="other")

    place.garbage.remove_pod("u")
    place.garbage.remove_old("unknown", "c")

    assert place.left() == {"otherc0", "otherc1"}
