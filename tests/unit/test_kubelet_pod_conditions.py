"""Conditions of a pod: status, reason and message, in kubelet's order."""

from collections.abc import Sequence

import pytest

from api.status import V1ContainerStatus, V1PodCondition
from harness.kubelet.status.api_status import (
    containers_ready,
    initialized,
    pod_conditions,
    ready,
    with_transition_times,
)
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus
from tests.unit.kubelet_objects import dead_sandbox, pod, runtime, sidecar

THEN = "2027-01-15T08:00:00Z"
NOW = "2027-01-15T09:00:00Z"


def status(name: str, *, ready: bool = False, started: bool = False, state: str = "waiting") -> V1ContainerStatus:
    return V1ContainerStatus.decode({"name": name, "ready": ready, "started": started, "state": {state: {}}})


def told(condition: V1PodCondition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


@pytest.mark.parametrize(
    ("containers", "init", "statuses", "phase", "expected"),
    [
        (["a"], [], [], "Pending", ("False", "UnknownContainerStatuses", "")),
        (["a"], [], [status("a", ready=True)], "Running", ("True", "", "")),
        (["a", "b"], [], [status("a", ready=True), status("b", ready=True)], "Running", ("True", "", "")),
        (
            ["a", "b"],
            [],
            [status("a", ready=True)],
            "Running",
            ("False", "ContainersNotReady", "containers with unknown status: [b]"),
        ),
        (
            ["b", "a", "c"],
            [],
            [status("a"), status("b")],
            "Pending",
            (
                "False",
                "ContainersNotReady",
                "containers with unknown status: [c], containers with unready status: [b a]",
            ),
        ),
        (["a"], [], [status("a")], "Succeeded", ("False", "PodCompleted", "")),
        (
            ["a", "b"],
            [],
            [status("a")],
            "Succeeded",
            (
                "False",
                "ContainersNotReady",
                "containers with unknown status: [b], containers with unready status: [a]",
            ),
        ),
        (["a"], [], [status("a", ready=True)], "Failed", ("False", "PodFailed", "")),
        # Sidecars come first; ordinary init containers do not count.
        (
            ["a"],
            [sidecar("s"), "i"],
            [status("a"), status("s"), status("i")],
            "Running",
            ("False", "ContainersNotReady", "containers with unready status: [s a]"),
        ),
        (["a"], [sidecar("s")], [status("a", ready=True), status("s", ready=True)], "Running", ("True", "", "")),
    ],
)
def test_ready_and_containers_ready(
    containers: Sequence[object],
    init: Sequence[object],
    statuses: Sequence[V1ContainerStatus],
    phase: str,
    expected: tuple[str, str, str],
) -> None:
    given = pod(containers, initContainers=init)

    both = [containers_ready(given, statuses, phase), ready(given, statuses, phase)]

    assert [condition.type for condition in both] == ["ContainersReady", "Ready"]
    assert [told(condition) for condition in both] == [expected, expected]


@pytest.mark.parametrize(
    ("init", "statuses", "phase", "expected"),
    [
        ([], [status("a")], "Pending", ("True", "", "")),
        ([], [], "Pending", ("True", "", "")),
        (
            ["i"],
            [status("a")],
            "Succeeded",
            ("False", "ContainersNotInitialized", "containers with unknown status: [i]"),
        ),
        (["i"], [], "Pending", ("False", "UnknownContainerStatuses", "")),
        (["i"], [status("a"), status("i", ready=True)], "Pending", ("True", "", "")),
        (
            ["i", "j"],
            [status("a"), status("i")],
            "Pending",
            (
                "False",
                "ContainersNotInitialized",
                "containers with unknown status: [j], containers with incomplete status: [i]",
            ),
        ),
        (
            ["i", "j"],
            [status("a"), status("i"), status("j")],
            "Pending",
            ("False", "ContainersNotInitialized", "containers with incomplete status: [i j]"),
        ),
        # A sidecar is complete when it is started, ready or not.
        (
            [sidecar("s")],
            [status("a"), status("s", ready=True)],
            "Pending",
            ("False", "ContainersNotInitialized", "containers with incomplete status: [s]"),
        ),
        ([sidecar("s")], [status("a"), status("s", started=True)], "Pending", ("True", "", "")),
        # A regular container that has started says it all.
        (["i"], [status("a", state="running"), status("i")], "Running", ("True", "", "")),
        (["i"], [status("a", state="terminated"), status("i")], "Running", ("True", "", "")),
        (["i"], [status("a"), status("i")], "Succeeded", ("True", "PodCompleted", "")),
    ],
)
def test_initialized(
    init: Sequence[object], statuses: Sequence[V1ContainerStatus], phase: str, expected: tuple[str, str, str]
) -> None:
    assert told(initialized(pod(["a"], initContainers=init), statuses, phase)) == expected


def test_initialized_pod_stays_so() -> None:
    before = [V1PodCondition(type="Initialized", status="True")]

    condition = initialized(pod(["a"], initContainers=["i"]), [status("a"), status("i")], "Pending", before)

    assert told(condition) == ("True", "", "")


@pytest.mark.parametrize(
    ("found", "expected"),
    [(runtime(), "True"), (runtime(sandboxes=()), "False"), (runtime(sandboxes=[dead_sandbox()]), "False")],
)
def test_conditions_in_kubelets_order(found: RuntimePodStatus, expected: str) -> None:
    conditions = pod_conditions(pod(["a"]), found, [status("a", ready=True)], "Running")

    assert [(condition.type, told(condition)) for condition in conditions] == [
        ("PodReadyToStartContainers", (expected, "", "")),
        ("Initialized", ("True", "", "")),
        ("Ready", ("True", "", "")),
        ("ContainersReady", ("True", "", "")),
        ("PodScheduled", ("True", "", "")),
    ]


@pytest.mark.parametrize(
    ("before", "expected"),
    [([], NOW), ([("Ready", "True")], THEN), ([("Ready", "False")], NOW), ([("Initialized", "True")], NOW)],
)
def test_transition_time_changes_with_the_status_only(before: list[tuple[str, str]], expected: str) -> None:
    old = [V1PodCondition(type=type, status=status, last_transition_time=THEN) for type, status in before]
    new = V1PodCondition(type="Ready", status="True", reason="Other")

    [timed] = with_transition_times([new], old, NOW)

    assert timed.last_transition_time == expected
    assert timed.reason == "Other"
