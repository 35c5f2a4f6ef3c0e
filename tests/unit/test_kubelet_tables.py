"""What `get pods` shows of a pod in one line, and when `run` takes a pod for settled."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.pod import V1Metadata
from api.status import V1PodStatus
from harness.cli.kubectl import POD_HEADINGS, age, pod_row, status_word
from harness.kubelet.events import Event
from harness.kubelet.status.readiness import failure_of, is_ready, obstacle_of
from tests.unit.kubelet_objects import pod, sidecar


def container(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "state": {}, "lastState": {}, **keys}


def running(name: str, *, ready: bool = True, **keys: Any) -> dict[str, Any]:
    return container(name, state={"running": {"startedAt": ""}}, ready=ready, started=True, **keys)


def waiting(name: str, reason: str, message: str = "") -> dict[str, Any]:
    return container(name, state={"waiting": {"reason": reason, "message": message}})


def ended(name: str, code: int, reason: str = "") -> dict[str, Any]:
    return container(name, state={"terminated": {"exitCode": code, "reason": reason}})


def status(*containers: dict[str, Any], inits: Any = (), phase: str = "Pending", **keys: Any) -> V1PodStatus:
    return V1PodStatus.decode(
        {"phase": phase, "containerStatuses": list(containers), "initContainerStatuses": list(inits), **keys}
    )


@pytest.mark.parametrize(
    ("told", "word"),
    [
        (status(), "Pending"),
        (status(running("a"), phase="Running"), "Running"),
        (status(waiting("a", "ContainerCreating")), "ContainerCreating"),
        (status(waiting("a", "CrashLoopBackOff"), running("b"), phase="Running"), "CrashLoopBackOff"),
        (status(waiting("a", "ErrImagePull"), waiting("b", "CrashLoopBackOff")), "ErrImagePull"),
        (status(ended("a", 0, "Completed"), phase="Succeeded"), "Completed"),
        (status(ended("a", 3, "Error"), phase="Failed"), "Error"),
        (status(ended("a", 3), phase="Failed"), "ExitCode:3"),
        (status(ended("a", 0, "Completed"), running("b"), phase="Running"), "NotReady"),
        (status(phase="Failed", reason="NodePorts"), "NodePorts"),
        (status(inits=[running("i")]), "Init:0/2"),
        (status(inits=[ended("i", 0), waiting("j", "PodInitializing")]), "Init:1/2"),
        (status(inits=[ended("i", 1, "Error")]), "Init:Error"),
        (status(inits=[waiting("i", "CrashLoopBackOff")]), "Init:CrashLoopBackOff"),
    ],
)
def test_status_word_of_a_pod(told: V1PodStatus, word: str) -> None:
    assert status_word(pod(["a", "b"], initContainers=["i", "j"]), told) == word


def test_a_started_sidecar_does_not_hide_the_containers() -> None:
    described = pod(["a"], initContainers=[sidecar("side")])

    assert status_word(described, status(running("a"), inits=[running("side")], phase="Running")) == "Running"


def test_a_pod_that_is_deleted_is_terminating() -> None:
    described = pod(["a"])
    described.metadata = V1Metadata(name="foo", deletion_timestamp="2026-01-01T00:00:00Z")

    assert status_word(described, status(running("a"), phase="Running")) == "Terminating"


def test_a_row_has_a_cell_for_each_heading() -> None:
    told = status(running("a", restartCount=2), running("b", ready=False, restartCount=1), phase="Running", podIP="::1")

    row = pod_row(pod(["a", "b"]), told)

    assert dict(zip(POD_HEADINGS, row, strict=True)) == {
        "NAMESPACE": "new",
        "NAME": "foo",
        "READY": "1/2",
        "STATUS": "Running",
        "RESTARTS": "3",
        "AGE": "",
        "IP": "::1",
    }


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (61, "1m1s"), (3600, "1h"), (90_061, "1d1h"), (-5, "0s"), (172_800, "2d")]
)
def test_an_age_has_two_units_at_most(seconds: int, text: str) -> None:
    # Half a second early, so that the seconds are the same until the clock is read.
    began = datetime.now(UTC) - timedelta(seconds=seconds + 0.5)

    assert age(began.isoformat()) == text


def test_no_time_has_no_age() -> None:
    assert age("") == ""


def condition(value: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": value}]}


@pytest.mark.parametrize(
    ("told", "ready"),
    [
        (status(phase="Running", **condition("True")), True),
        (status(phase="Running", **condition("False")), False),
        (status(phase="Succeeded", **condition("False")), True),
        (status(phase="Failed"), True),
        (status(), False),
    ],
)
def test_a_pod_is_settled_when_it_is_ready_or_has_ended(told: V1PodStatus, ready: bool) -> None:  # noqa: FBT001 -- the expectation
    assert is_ready(told) is ready


FAILED = Event(type="Warning", reason="FailedMount", message="no volume")


@pytest.mark.parametrize(
    ("told", "events", "words"),
    [
        (status(phase="Failed", reason="NodePorts", message="taken"), [], "NodePorts: taken"),
        (status(phase="Failed"), [], "Failed"),
        (
            status(ended("a", 0), ended("b", 3, "Error"), phase="Failed"),
            [],
            "container b ended with exit code 3 (Error)",
        ),
        (status(inits=[ended("i", 4)], phase="Failed"), [], "init container i ended with exit code 4"),
        (status(waiting("a", "ErrImagePull", "none")), [], "container a: ErrImagePull: none"),
        (status(inits=[waiting("i", "CrashLoopBackOff", "bad")]), [], "init container i: CrashLoopBackOff: bad"),
        (
            status(waiting("a", "CrashLoopBackOff", "bad") | {"lastState": ended("a", 1, "Error")["state"]}),
            [],
            "container a: CrashLoopBackOff: bad; it ended with exit code 1 (Error)",
        ),
        (status(waiting("a", "ContainerCreating")), [FAILED], "FailedMount: no volume"),
        (status(waiting("a", "ContainerCreating")), [], ""),
        (status(running("a")), [FAILED], ""),
        (status(waiting("a", "ContainerCreating")), [FAILED, Event(type="Normal", reason="Created")], ""),
    ],
)
def test_the_reason_why_a_pod_does_not_get_ready(told: V1PodStatus, events: list[Event], words: str) -> None:
    failure = failure_of(told, events)

    assert (failure.text if failure else "") == words


UNHEALTHY = Event(
    type="Warning", reason="Unhealthy", message="Readiness probe failed: x", field_path="spec.containers{a}"
)


@pytest.mark.parametrize(
    ("told", "events", "words"),
    [
        (status(running("a", ready=False), phase="Running"), [UNHEALTHY], "container a: Readiness probe failed: x"),
        (status(running("b", ready=False), phase="Running"), [], ""),
        (
            status(waiting("a", "PodInitializing"), inits=[running("i", ready=False)]),
            [],
            "init container i has not ended",
        ),
        (status(ended("a", 3, "Error"), phase="Running"), [], "container a ended with exit code 3 (Error)"),
        (status(waiting("a", "ContainerCreating")), [FAILED], "FailedMount: no volume"),
        (status(waiting("a", "ContainerCreating")), [], "container a: ContainerCreating"),
    ],
)
def test_the_reason_why_a_pod_is_not_ready_in_time(told: V1PodStatus, events: list[Event], words: str) -> None:
    obstacle = obstacle_of(told, events)

    assert (obstacle.text if obstacle else "") == words
