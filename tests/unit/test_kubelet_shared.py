"""Labels, texts, probe results, reasons, the runtime's view of a pod, and readiness of the runtime."""

import json

import pytest

from api.formats import format_duration, format_strings, format_time
from harness.cri.messages import (
    NETWORK_READY,
    RUNTIME_READY,
    Container,
    ContainerStatus,
    PodSandboxStatus,
    RuntimeCondition,
    RuntimeStatus,
)
from harness.cri.service import NotFoundError
from harness.kubelet.labels import (
    POD_UID,
    container_annotations,
    container_hash,
    container_labels,
    is_static,
    pod_labels,
)
from harness.kubelet.probes.results import ProbeResult, ProbeResults, ProbeUpdate
from harness.kubelet.status.runtime_pod_status import runtime_pod_status
from harness.kubelet.status.start_errors import Reason, ReasonCache, network_error
from tests.unit.kubelet_objects import IP, UID, attempt, dead_sandbox, exited, pod, sandbox


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (10, "10s"),
        (80, "1m20s"),
        (300, "5m0s"),
        (3600, "1h0m0s"),
        (5415.25, "1h30m15.25s"),
        (1.5, "1.5s"),
        (0.02, "20ms"),
        (0.0015, "1.5ms"),
        (0.000002, "2µs"),
        (0.000000003, "3ns"),
        (-80, "-1m20s"),
        (180.5, "3m0.5s"),
    ],
)
def test_durations_as_go_prints_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_other_texts_as_kubernetes_prints_them() -> None:
    assert str(pod()) == f"foo_new({UID})"
    assert format_strings(["a", "b"]) == "[a b]"
    assert format_strings([]) == "[]"
    assert format_time(1_800_000_000.999) == "2027-01-15T08:00:00Z"


def test_labels_of_sandboxes_and_containers() -> None:
    labelled = pod(["a"])
    labelled.metadata.labels = {"app": "web", "io.kubernetes.pod.name": "forged"}
    identity = {
        "io.kubernetes.pod.name": "foo",
        "io.kubernetes.pod.namespace": "new",
        "io.kubernetes.pod.uid": UID,
    }

    assert pod_labels(labelled) == {"app": "web", **identity}
    expected = {**identity, "io.kubernetes.container.name": "a"}
    assert container_labels(labelled, labelled.spec.containers[0]) == expected


def test_annotations_of_containers() -> None:
    keys = {"ports": [{"containerPort": 80}], "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}
    full = pod([{"name": "a", "terminationMessagePath": "/t", **keys}], terminationGracePeriodSeconds=5)
    full.metadata.deletion_grace_period_seconds = 3
    bare = pod(["a"])

    annotations = container_annotations(full, full.spec.containers[0], 7)

    prefix = "io.kubernetes.container."
    assert json.loads(annotations.pop(prefix + "preStopHandler")) == {"sleep": {"seconds": 1}}
    assert json.loads(annotations.pop(prefix + "ports")) == [{"containerPort": 80}]
    assert annotations == {
        prefix + "hash": container_hash(full.spec.containers[0]),
        prefix + "restartCount": "7",
        prefix + "terminationMessagePath": "/t",
        prefix + "terminationMessagePolicy": "",
        "io.kubernetes.pod.terminationGracePeriod": "5",
        "io.kubernetes.pod.deletionGracePeriod": "3",
    }
    assert len(container_annotations(bare, bare.spec.containers[0], 0)) == 4


def test_hash_is_of_name_and_image_only() -> None:
    one, other_name, other_image, same = pod(
        [{"name": "a"}, {"name": "b"}, {"name": "a", "image": "x"}, {"name": "a", "command": ["sh"]}]
    ).spec.containers

    assert container_hash(one) == container_hash(same)
    assert len({container_hash(each) for each in (one, other_name, other_image)}) == 3
    # FNV-1a, 32 bits, of {"image":"busybox","name":"a"}: the same in every run, as it is stored with containers.
    assert container_hash(one) == "476290f0"


@pytest.mark.parametrize(("source", "static"), [(None, False), ("api", False), ("file", True), ("http", True)])
def test_static_pods(source: str | None, *, static: bool) -> None:
    assert is_static(pod(annotations={"kubernetes.io/config.source": source} if source else {})) is static


def test_probe_results_tell_of_changes() -> None:
    results = ProbeResults()
    updates: list[ProbeUpdate] = []
    results.on_change(updates.append)
    for result in (ProbeResult.UNKNOWN, ProbeResult.UNKNOWN, ProbeResult.SUCCESS):
        results.set("id", UID, result)

    assert updates == [("id", UID, ProbeResult.UNKNOWN), ("id", UID, ProbeResult.SUCCESS)]
    assert results.get("id") is ProbeResult.SUCCESS
    results.remove("id")
    results.remove("id")
    assert results.get("id") is None
    assert len(updates) == 2


def test_callback_may_ask_for_results() -> None:
    results = ProbeResults()
    seen: list[ProbeResult | None] = []
    results.on_change(lambda update: seen.append(results.get(update.container_id)))

    results.set("id", UID, ProbeResult.FAILURE)

    assert seen == [ProbeResult.FAILURE]


def test_reasons_by_pod_and_container() -> None:
    reasons = ReasonCache()
    reasons.set("u", "a", "ErrImagePull", "m")
    reasons.set("u", "a", "ImagePullBackOff", "n")

    assert reasons.get("u", "a") == Reason("ImagePullBackOff", "n")
    assert reasons.get("u", "b") is None
    assert reasons.get("v", "a") is None
    reasons.remove("u", "a")
    reasons.remove("u", "a")
    assert reasons.get("u", "a") is None


def test_least_recently_used_reason_is_dropped() -> None:
    reasons = ReasonCache()
    for number in range(1000):
        reasons.set("u", str(number), "R", "")
    assert reasons.get("u", "0")

    reasons.set("u", "1000", "R", "")

    assert reasons.get("u", "1") is None
    assert reasons.get("u", "0")


class Runtime:
    """A runtime whose lists may have more than it still knows."""

    def __init__(self, sandboxes: list[PodSandboxStatus], containers: list[ContainerStatus]) -> None:
        self.gone: set[str] = set()
        self._sandboxes = {sandbox.id: sandbox for sandbox in sandboxes}
        self._containers = {container.id: container for container in containers}

    def list_pod_sandbox(self, labels: dict[str, str]) -> list[PodSandboxStatus]:
        assert labels == {POD_UID: UID}
        return list(self._sandboxes.values())

    def list_containers(self, *, labels: dict[str, str]) -> list[Container]:
        assert labels == {POD_UID: UID}
        return list(self._containers.values())

    def pod_sandbox_status(self, pod_sandbox_id: str) -> PodSandboxStatus:
        self._check(pod_sandbox_id)
        return self._sandboxes[pod_sandbox_id]

    def container_status(self, container_id: str) -> ContainerStatus:
        self._check(container_id)
        return self._containers[container_id]

    def _check(self, known: str) -> None:
        if known in self.gone:
            raise NotFoundError(known)


def test_sandboxes_and_containers_come_newest_first() -> None:
    runtime = Runtime(
        [dead_sandbox(0), sandbox(1)],
        [exited("a"), attempt("b", sandbox_id="sandbox1"), attempt("a", number=1, sandbox_id="sandbox1")],
    )

    status = runtime_pod_status(runtime, UID)  # type: ignore[arg-type]  # the four calls that it makes

    assert status.ips == (IP,)
    assert [found.id for found in status.sandboxes] == ["sandbox1", "sandbox0"]
    assert [found.id for found in status.of("a")] == ["a-1", "a-0"]
    assert status.newest("a") == status.of("a")[0]
    assert {found.id for found in status.active()} == {"a-1", "b-0"}


def test_vanished_sandboxes_and_containers_are_left_out() -> None:
    runtime = Runtime([dead_sandbox(0), sandbox(1)], [exited("a"), attempt("a", number=1)])
    runtime.gone = {"sandbox1", "a-1"}

    status = runtime_pod_status(runtime, UID)  # type: ignore[arg-type]  # the four calls that it makes

    assert [found.id for found in status.sandboxes] == ["sandbox0"]
    assert [found.id for found in status.containers] == ["a-0"]
    assert (status.ips, status.active()) == ((), [])


def test_runtime_without_anything_of_the_pod() -> None:
    status = runtime_pod_status(Runtime([], []), UID)  # type: ignore[arg-type]  # the four calls that it makes

    assert tuple(status) == ((), (), ())
    assert status.newest("a") is None


WHY = "reason:NetworkPluginNotReady message:cni plugin not initialized"


def conditions(*, runtime: bool | None, network: bool | None) -> RuntimeStatus:
    known = [(RUNTIME_READY, runtime), (NETWORK_READY, network)]
    return RuntimeStatus(
        conditions=[
            RuntimeCondition(
                type=type, status=status, reason="NetworkPluginNotReady", message="cni plugin not initialized"
            )
            for type, status in known
            if status is not None
        ]
    )


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (conditions(runtime=False, network=True), None),
        (conditions(runtime=True, network=False), f"container runtime network not ready: NetworkReady=false {WHY}"),
        (conditions(runtime=None, network=None), "container runtime network not ready: <nil>"),
    ],
)
def test_readiness_of_the_network(status: RuntimeStatus, why: str | None) -> None:
    assert network_error(status) == why
