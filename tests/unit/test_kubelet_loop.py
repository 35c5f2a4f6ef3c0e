"""The kubelet's loop: which pods it gives to workers, starts again, leaves alone. The workers' functions note calls."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from api.pod import V1Pod
from harness.containerd.sandbox_networks import SandboxNetworks
from harness.containerd.sandbox_record import SandboxPod, new_sandbox
from harness.containerd.service import BuiltinRuntime
from harness.cri.messages import PodSandboxConfig, PodSandboxMetadata
from harness.kubelet.admission import NodeFacts
from harness.kubelet.events import EventRecorder
from harness.kubelet.garbage import GarbageCollector
from harness.kubelet.kubelet import Kubelet, KubeletParts
from harness.kubelet.labels import CONFIG_SOURCE, POD_UID
from harness.kubelet.paths import KubeletPaths
from harness.kubelet.pod_records import PodRecords
from harness.kubelet.sources import RUN_SOURCE
from harness.kubelet.sync.pleg import Pleg
from harness.runtime.node import Node
from harness.runtime.pods import PodStore
from harness.runtime.sandbox_life import SandboxState
from tests.unit.kubelet_objects import probes

if TYPE_CHECKING:
    from harness.kubelet.sync.pod_sync import PodSync


def described(uid: str, source: str = "file") -> V1Pod:
    metadata = {"name": uid, "namespace": "default", "uid": uid, "annotations": {CONFIG_SOURCE: source}}
    return V1Pod.decode({"metadata": metadata, "spec": {"containers": []}})


class Place:
    """A kubelet over the built-in runtime, in which no process runs."""

    def __init__(self, folder: Path, *, owns_runtime: bool = True) -> None:
        self.calls: list[str] = []
        self.said: list[str] = []
        self.paths = KubeletPaths(folder)
        self.records = PodRecords(self.paths)

        def open_node() -> Node:
            return Node(None, folder, threads=1)

        networks = SandboxNetworks(open_node, folder, [], warn=self.said.append)
        service = BuiltinRuntime(folder, open_node, networks, take_over=True)
        self.kubelet = Kubelet(
            KubeletParts(
                service=service,
                functions=cast("PodSync", self),
                records=self.records,
                events=EventRecorder(self.paths.pods),
                pleg=Pleg(service),
                garbage=GarbageCollector(service, self.paths, warn=self.said.append),
                probes=probes(),
                node=NodeFacts("n", {}, {"cpu": 1000, "memory": 2**30}),
                say=self.said.append,
                owns_runtime=owns_runtime,
            )
        )

    def sync(self, pod: V1Pod) -> bool:
        self.calls.append(f"sync {pod.metadata.uid}")
        return False

    def seconds_left(self, pod: V1Pod) -> float:
        del pod
        return math.inf

    def terminate(self, pod: V1Pod, grace_s: int | None) -> None:
        grace_s = pod.metadata.deletion_grace_period_seconds if grace_s is None else grace_s
        self.calls.append(f"terminate {pod.metadata.uid} {grace_s}")

    def stop_sooner(self, pod: V1Pod, grace_s: int) -> None:
        self.calls.append(f"stop_sooner {pod.metadata.uid} {grace_s}")

    def finish(self, pod: V1Pod) -> None:
        self.calls.append(f"finish {pod.metadata.uid}")

    def run_until(self, done: Callable[[], bool]) -> None:
        self.kubelet.run(until=done)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_pod_of_run_is_not_ended_before_the_sources_hand_it_on(place: Place) -> None:
    place.records.add(described("new", RUN_SOURCE))
    place.records.add(described("gone"))

    place.kubelet.set_pods([])
    place.run_until(lambda: "finish gone" in place.calls)
    place.kubelet.set_pods([described("new", RUN_SOURCE)])
    place.run_until(lambda: "sync new" in place.calls)

    assert [call for call in place.calls if "new" in call] == ["sync new"]
    place.kubelet.close()


def test_a_deletion_on_record_is_not_overwritten(place: Place) -> None:
    pod = described("p", RUN_SOURCE)
    place.records.set_deleted(described("p", RUN_SOURCE), 3)

    place.kubelet.set_pods([pod])
    place.run_until(lambda: "sync p" in place.calls)
    place.kubelet.set_pods([])
    place.run_until(lambda: "finish p" in place.calls)

    assert place.calls == ["sync p", "terminate p 3", "finish p"]
    place.kubelet.close()


def test_a_manifest_that_comes_back_is_started_again_and_stays_on_record(place: Place) -> None:
    place.kubelet.set_pods([described("p")])
    place.run_until(lambda: "sync p" in place.calls)

    place.kubelet.set_pods([])
    place.kubelet.set_pods([described("p")])
    place.run_until(lambda: place.calls.count("sync p") == 2)

    assert [pod.metadata.uid for pod in place.records.pods()] == ["p"]
    place.kubelet.close()


def test_a_folder_that_cannot_be_written_does_not_end_the_loop(place: Place) -> None:
    place.paths.pods.mkdir(parents=True)
    place.paths.pod("bad").write_text("not a folder")

    place.kubelet.set_pods([described("bad"), described("good")])
    place.run_until(lambda: "sync good" in place.calls)

    assert any("bad" in line for line in place.said)
    place.kubelet.close()


@pytest.mark.parametrize(("owns_runtime", "calls"), [(True, ["terminate other 1", "finish other"]), (False, [])])
def test_only_the_owner_of_a_runtime_ends_pods_that_it_does_not_know(
    tmp_path: Path, *, owns_runtime: bool, calls: list[str]
) -> None:
    metadata = PodSandboxMetadata(name="other", uid="other", namespace="default", attempt=0)
    config = PodSandboxConfig(metadata=metadata, labels={POD_UID: "other"})
    sandbox = new_sandbox(config, [])
    sandbox.state = SandboxState.NOTREADY
    with PodStore(tmp_path / "pods", SandboxPod).reserved(sandbox, lambda _: True):
        pass
    place = Place(tmp_path, owns_runtime=owns_runtime)

    place.kubelet.set_pods([described("own")])
    place.run_until(lambda: "sync own" in place.calls and len(place.calls) > len(calls))

    assert [call for call in place.calls if "other" in call] == calls
    place.kubelet.close()
