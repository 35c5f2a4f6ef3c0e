"""The phase of a pod by the states of its containers: the tables of kubelet's own TestPodPhaseWith…."""

import pytest

from api.status import (
    V1ContainerState,
    V1ContainerStatus,
    V1StateRunning,
    V1StateTerminated,
    V1StateWaiting,
)
from harness.kubelet.status.pod_phase import pod_phase
from tests.unit.kubelet_objects import pod, sidecar

FILE = {"kubernetes.io/config.source": "file"}
EVERY = ("Always", "OnFailure", "Never")


def running(name: str, *, started: bool | None = None) -> V1ContainerStatus:
    return V1ContainerStatus(name=name, started=started, state=V1ContainerState(running=V1StateRunning()))


def ended(name: str, exit_code: int = 0) -> V1ContainerStatus:
    return V1ContainerStatus(name=name, state=V1ContainerState(terminated=V1StateTerminated(exit_code=exit_code)))


def waiting(name: str, last_exit_code: int | None = None) -> V1ContainerStatus:
    """A container that waits: for its first start, or for another one."""
    last = None if last_exit_code is None else V1StateTerminated(exit_code=last_exit_code)
    return V1ContainerStatus(
        name=name,
        state=V1ContainerState(waiting=V1StateWaiting()),
        last_state=V1ContainerState(terminated=last),
    )


def empty(name: str) -> V1ContainerStatus:
    return V1ContainerStatus(name=name)


@pytest.mark.parametrize(
    ("statuses", "always", "on_failure", "never"),
    [
        ((), "Pending", "Pending", "Pending"),
        ((running("a"), running("b")), "Running", "Running", "Running"),
        ((running("a"),), "Pending", "Pending", "Pending"),
        ((running("a"), empty("b")), "Pending", "Pending", "Pending"),
        ((running("a"), waiting("b")), "Pending", "Pending", "Pending"),
        ((running("a"), ended("b")), "Running", "Running", "Running"),
        ((running("a"), ended("b", 1)), "Running", "Running", "Running"),
        ((running("a"), waiting("b", 1)), "Running", "Running", "Running"),
        ((ended("a"), ended("b")), "Running", "Succeeded", "Succeeded"),
        ((ended("a", 1), ended("b", 1)), "Running", "Running", "Failed"),
        ((ended("a"), ended("b", 1)), "Running", "Running", "Failed"),
        ((ended("a"),), "Pending", "Pending", "Pending"),
        ((waiting("a"), waiting("b")), "Pending", "Pending", "Pending"),
        # CrashLoopBackOff.
        ((waiting("a", 1), waiting("b", 1)), "Running", "Running", "Failed"),
        # One that has succeeded and waits counts as a failure, unless it starts again.
        ((ended("a"), waiting("b", 0)), "Running", "Failed", "Failed"),
    ],
)
def test_phase_of_regular_containers(
    statuses: tuple[V1ContainerStatus, ...], always: str, on_failure: str, never: str
) -> None:
    phases = tuple(pod_phase(pod(["a", "b"], restartPolicy=policy), statuses) for policy in EVERY)

    assert (always, on_failure, never) == phases


@pytest.mark.parametrize(
    ("init", "always", "on_failure", "never"),
    [
        (None, "Pending", "Pending", "Pending"),
        (waiting("i"), "Pending", "Pending", "Pending"),
        (empty("i"), "Pending", "Pending", "Pending"),
        (running("i"), "Pending", "Pending", "Pending"),
        (ended("i", 1), "Pending", "Pending", "Failed"),
        (waiting("i", 1), "Pending", "Pending", "Failed"),
        (ended("i"), "Pending", "Pending", "Pending"),
    ],
)
def test_phase_while_the_regular_container_waits_for_an_init_container(
    init: V1ContainerStatus | None, always: str, on_failure: str, never: str
) -> None:
    statuses = [waiting("a"), *([init] if init else [])]
    phases = tuple(pod_phase(pod(["a"], initContainers=["i"], restartPolicy=policy), statuses) for policy in EVERY)

    assert (always, on_failure, never) == phases


@pytest.mark.parametrize("policy", EVERY)
def test_running_container_without_the_status_of_its_init_container_is_pending(policy: str) -> None:
    assert pod_phase(pod(["a"], initContainers=["i"], restartPolicy=policy), [running("a")]) == "Pending"
    assert pod_phase(pod(["a"], initContainers=["i"], restartPolicy=policy), [running("a"), ended("i")]) == "Running"


@pytest.mark.parametrize(
    ("side", "regular", "started", "expected"),
    [
        (None, running("a"), True, "Pending"),
        (empty("s"), running("a"), True, "Pending"),
        (running("s", started=True), running("a"), True, "Running"),
        (running("s", started=False), waiting("a"), False, "Pending"),
        # Before initialisation a sidecar that is not started holds the pod back, afterwards not.
        (running("s", started=False), running("a"), False, "Pending"),
        (running("s", started=True), running("a"), False, "Running"),
        (running("s", started=False), running("a"), True, "Running"),
        (waiting("s"), running("a"), True, "Pending"),
        (waiting("s", 1), running("a"), True, "Running"),
        (ended("s", 1), running("a"), True, "Running"),
        # A pod runs until its sidecars have ended.
        (running("s", started=True), ended("a"), True, "Running"),
        (ended("s", 137), ended("a"), True, "Succeeded"),
        (ended("s"), ended("a", 1), True, "Failed"),
        (waiting("s", 1), ended("a"), True, "Succeeded"),
    ],
)
def test_phase_with_a_sidecar(
    side: V1ContainerStatus | None, regular: V1ContainerStatus, expected: str, *, started: bool
) -> None:
    with_sidecar = pod(["a"], initContainers=[sidecar("s")], restartPolicy="Never")
    statuses = [regular, *([side] if side else [])]

    assert pod_phase(with_sidecar, statuses, started=started) == expected


@pytest.mark.parametrize(
    ("own_policy", "exit_code", "policy", "expected"),
    [
        ("Never", 1, "Always", "Failed"),
        ("Never", 0, "Always", "Succeeded"),
        ("OnFailure", 1, "Never", "Running"),
        ("OnFailure", 0, "Always", "Succeeded"),
        ("Always", 0, "Never", "Running"),
    ],
)
def test_own_policy_of_a_container_goes_before_the_pods(
    own_policy: str, exit_code: int, policy: str, expected: str
) -> None:
    own = pod([{"name": "a", "restartPolicy": own_policy}], restartPolicy=policy)

    assert pod_phase(own, [ended("a", exit_code)]) == expected


def test_failed_init_container_with_its_own_policy() -> None:
    again = pod(["a"], initContainers=[{"name": "i", "restartPolicy": "OnFailure"}], restartPolicy="Never")
    never = pod(["a"], initContainers=[{"name": "i", "restartPolicy": "Never"}], restartPolicy="Always")

    assert pod_phase(again, [waiting("a"), ended("i", 1)]) == "Pending"
    assert pod_phase(never, [waiting("a"), ended("i", 1)]) == "Failed"


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [((ended("a"), ended("b")), "Succeeded"), ((ended("a"), ended("b", 137)), "Failed")],
)
@pytest.mark.parametrize("policy", EVERY)
def test_stopped_pod_has_ended_under_every_policy_unless_it_is_static(
    policy: str, statuses: tuple[V1ContainerStatus, ...], expected: str
) -> None:
    from_api = pod(["a", "b"], restartPolicy=policy)
    from_file = pod(["a", "b"], annotations=FILE, restartPolicy=policy)

    assert pod_phase(from_api, statuses, terminal=True) == expected
    assert pod_phase(from_file, statuses, terminal=True) == pod_phase(from_file, statuses)


def test_pod_without_containers_is_pending() -> None:
    assert pod_phase(pod([]), []) == "Pending"


def test_stopped_pod_with_a_running_container_runs() -> None:
    assert pod_phase(pod(["a", "b"]), [running("a"), ended("b")], terminal=True) == "Running"
