"""Which ended containers, sandboxes and logs are removed: of a runtime with lists alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from harness.cri.messages import (
    Container,
    ContainerMetadata,
    ContainerState,
    ContainerStatus,
    PodSandboxMetadata,
    PodSandboxState,
    PodSandboxStatus,
)
from harness.cri.service import NotFoundError, RuntimeService, RuntimeServiceError
from harness.kubelet.garbage import GarbageCollector
from harness.kubelet.labels import CONTAINER_NAME, POD_UID
from harness.kubelet.paths import KubeletPaths


class Lists:
    """The runtime's lists; removals take from them, `stuck` cannot be removed, `vanished` has no status."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sandboxes: dict[str, PodSandboxStatus] = {}
        self.containers: dict[str, Container] = {}
        self.stuck: set[str] = set()
        self.vanished: set[str] = set()

    def sandbox(self, sandbox_id: str, uid: str, attempt: int, state: PodSandboxState) -> None:
        metadata = PodSandboxMetadata(name=uid, uid=uid, namespace="default", attempt=attempt)
        self.sandboxes[sandbox_id] = PodSandboxStatus(
            id=sandbox_id, metadata=metadata, state=state, created_at=attempt + 1
        )

    def container(self, container_id: str, uid: str, attempt: int, state: ContainerState, sandbox: str = "") -> None:
        self.log(container_id).write_text("words")
        self.containers[container_id] = Container(
            id=container_id,
            pod_sandbox_id=sandbox,
            metadata=ContainerMetadata(name="app", attempt=attempt),
            state=state,
            created_at=attempt + 1,
            labels={POD_UID: uid, CONTAINER_NAME: "app"},
        )

    def log(self, container_id: str) -> Path:
        return self.folder / f"{container_id}.log"

    def list_pod_sandbox(self) -> list[PodSandboxStatus]:
        return list(self.sandboxes.values())

    def list_containers(self, pod_sandbox_id: str = "", labels: Mapping[str, str] | None = None) -> list[Container]:
        assert not pod_sandbox_id
        return [each for each in self.containers.values() if (labels or {}).items() <= each.labels.items()]

    def container_status(self, container_id: str) -> ContainerStatus:
        if container_id in self.vanished:
            raise NotFoundError(container_id)
        each = self.containers[container_id]
        return ContainerStatus(
            id=container_id,
            pod_sandbox_id=each.pod_sandbox_id,
            metadata=each.metadata,
            state=each.state,
            created_at=each.created_at,
            log_path=str(self.log(container_id)),
        )

    def remove_container(self, container_id: str) -> None:
        if container_id in self.stuck:
            raise RuntimeServiceError("busy")
        assert self.containers.pop(container_id).state is not ContainerState.RUNNING

    def remove_pod_sandbox(self, sandbox_id: str) -> None:
        assert self.sandboxes.pop(sandbox_id).state is not PodSandboxState.READY


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    return Lists(tmp_path)


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def garbage(lists: Lists, warnings: list[str], tmp_path: Path) -> GarbageCollector:
    return GarbageCollector(cast("RuntimeService", lists), KubeletPaths(tmp_path), warn=warnings.append)


def test_the_newest_ended_container_of_a_name_stays(lists: Lists, garbage: GarbageCollector) -> None:
    for attempt in range(3):
        lists.container(f"c{attempt}", "u1", attempt, ContainerState.EXITED)
    lists.container("c3", "u1", 3, ContainerState.RUNNING)

    garbage.collect(lambda _: True)

    assert list(lists.containers) == ["c2", "c3"]
    assert [lists.log(name).exists() for name in ("c0", "c1", "c2", "c3")] == [False, False, True, True]


def test_gc_of_an_unwanted_pod_keeps_only_running_containers(lists: Lists, garbage: GarbageCollector) -> None:
    lists.container("ended", "gone", 0, ContainerState.EXITED)
    lists.container("running", "gone", 1, ContainerState.RUNNING, sandbox="s2")
    lists.container("other", "kept", 0, ContainerState.EXITED)
    lists.sandbox("s1", "gone", 0, PodSandboxState.NOTREADY)
    lists.sandbox("s2", "gone", 1, PodSandboxState.NOTREADY)
    lists.sandbox("s3", "kept", 0, PodSandboxState.NOTREADY)

    garbage.collect(lambda uid: uid == "kept")

    assert list(lists.containers) == ["running", "other"]
    assert list(lists.sandboxes) == ["s2", "s3"]


def test_gc_keeps_the_newest_sandbox_and_sandboxes_in_use(lists: Lists, garbage: GarbageCollector) -> None:
    for attempt in range(4):
        lists.sandbox(f"s{attempt}", "u1", attempt, PodSandboxState.READY if attempt == 2 else PodSandboxState.NOTREADY)
    lists.container("c1", "u1", 0, ContainerState.EXITED, sandbox="s1")

    garbage.collect(lambda _: True)

    assert list(lists.sandboxes) == ["s1", "s2", "s3"]


def test_after_a_containers_end_its_older_attempts_go(lists: Lists, garbage: GarbageCollector) -> None:
    for attempt in range(3):
        lists.container(f"c{attempt}", "u1", attempt, ContainerState.EXITED)
    lists.container("other", "u2", 0, ContainerState.EXITED)

    garbage.remove_old("u1", "app")

    assert list(lists.containers) == ["c2", "other"]


def test_gc_reports_a_failure_and_removes_the_rest(
    lists: Lists, garbage: GarbageCollector, warnings: list[str]
) -> None:
    for attempt in range(4):
        lists.container(f"c{attempt}", "u1", attempt, ContainerState.EXITED)
    lists.stuck = {"c1"}
    lists.vanished = {"c2"}

    garbage.collect(lambda _: True)

    assert list(lists.containers) == ["c1", "c2", "c3"]
    assert lists.log("c1").exists()
    assert warnings == ["garbage collection: busy"]


def test_links_to_logs_that_are_gone_are_removed(lists: Lists, garbage: GarbageCollector, tmp_path: Path) -> None:
    lists.container("c1", "u1", 0, ContainerState.RUNNING)
    links = KubeletPaths(tmp_path).container_logs
    links.mkdir(parents=True)
    (links / "kept.log").symlink_to(lists.log("c1"))
    (links / "dangling.log").symlink_to(lists.log("none"))

    garbage.collect(lambda _: True)

    assert [path.name for path in links.iterdir()] == ["kept.log"]
