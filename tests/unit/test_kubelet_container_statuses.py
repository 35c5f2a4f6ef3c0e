"""Container statuses from what the runtime has, what it had, and why containers did not start."""

import pytest

from api.pod import V1Pod
from api.status import V1ContainerState, V1ContainerStatus
from harness.cri.messages import ContainerState, ContainerStatus
from harness.kubelet.labels import RESTART_COUNT
from harness.kubelet.status.container_statuses import StatusSources, container_statuses, init_container_statuses
from harness.kubelet.status.start_errors import ReasonCache
from tests.unit.kubelet_objects import UID, attempt, exited, pod, runtime, sidecar

STARTED = "2027-01-15T08:00:01Z"
FINISHED = "2027-01-15T08:00:02Z"
RUNNING = {"running": {"startedAt": STARTED}}
ENDED = {"exitCode": 1, "reason": "Error", "startedAt": STARTED, "finishedAt": FINISHED, "containerID": "cri://foo-0"}
LOST = "The container could not be located when the pod was "


def statuses(
    pod: V1Pod,
    *containers: ContainerStatus,
    old: list[V1ContainerStatus] | None = None,
    reasons: ReasonCache | None = None,
) -> list[V1ContainerStatus]:
    sources = StatusSources(pod, runtime(*containers), reasons or ReasonCache(), "cri")
    return container_statuses(sources, pod.spec.containers, old or [])


def init_statuses(
    pod: V1Pod, *containers: ContainerStatus, old: list[V1ContainerStatus] | None = None
) -> list[V1ContainerStatus]:
    return init_container_statuses(StatusSources(pod, runtime(*containers), ReasonCache(), "cri"), old or [])


def old(**keys: object) -> V1ContainerStatus:
    return V1ContainerStatus.decode({"name": "foo", "image": "busybox", "containerID": "cri://foo-0", **keys})


def crashing(
    reason: str = "CrashLoopBackOff", message: str = "back-off 10s restarting failed container=foo"
) -> ReasonCache:
    reasons = ReasonCache()
    reasons.set(UID, "foo", reason, message)
    return reasons


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (attempt("foo"), RUNNING),
        (attempt("foo", ContainerState.CREATED), {"waiting": {}}),
        (attempt("foo", ContainerState.UNKNOWN), {"waiting": {}}),
        (exited("foo", 1, reason="Error"), {"terminated": ENDED}),
        (
            exited("foo", 0, reason="Completed", message="bye"),
            {"terminated": {**ENDED, "exitCode": 0, "reason": "Completed", "message": "bye"}},
        ),
    ],
)
def test_state_comes_from_the_newest_attempt(found: ContainerStatus, expected: dict[str, object]) -> None:
    [status] = statuses(pod(["foo"], restartPolicy="Never"), found)

    assert status.state == V1ContainerState.decode(expected)
    assert (status.name, status.image, status.image_id, status.container_id) == (
        "foo",
        "busybox",
        "sha256:1",
        "cri://foo-0",
    )


def test_last_state_comes_from_the_previous_attempt() -> None:
    found = (attempt("foo", number=2), exited("foo", 7, number=1), exited("foo", 1))

    for known in (found, found[:2]):
        [status] = statuses(pod(["foo"]), *known)

        assert status.state.running is not None
        assert status.last_state.terminated is not None
        assert status.last_state.terminated.exit_code == 7
        assert status.restart_count == 2


def test_restart_count_is_annotated_and_else_the_attempt() -> None:
    found = attempt("foo", number=4)
    found.annotations[RESTART_COUNT] = "9"
    assert statuses(pod(["foo"]), found)[0].restart_count == 9
    found.annotations = {}

    assert statuses(pod(["foo"]), found)[0].restart_count == 4


@pytest.mark.parametrize(("init", "reason"), [((), "ContainerCreating"), (("init",), "PodInitializing")])
def test_container_waits_before_its_first_start(init: tuple[str, ...], reason: str) -> None:
    waiting = pod(["foo"], initContainers=init)

    for status in [*statuses(waiting), *init_statuses(waiting)]:
        assert status.state == V1ContainerState.decode({"waiting": {"reason": reason}})
        assert status.image == "busybox"
        assert status.container_id == ""


def test_statuses_are_sorted_by_name_and_init_statuses_as_in_the_manifest() -> None:
    mixed = pod(["b", "a"], initContainers=["z", "y"])

    assert [status.name for status in statuses(mixed)] == ["a", "b"]
    assert [status.name for status in init_statuses(mixed)] == ["z", "y"]


def test_removed_container_keeps_its_end() -> None:
    before = old(state={"terminated": ENDED}, restartCount=3)

    assert statuses(pod(["foo"], restartPolicy="Never"), old=[before]) == [before]


def test_removed_running_container_ended_with_unknown_status() -> None:
    before = old(state=RUNNING, restartCount=1)

    [status] = statuses(pod(["foo"]), old=[before])

    assert status.state == V1ContainerState.decode({"waiting": {"reason": "ContainerCreating"}})
    message = LOST + "deleted.  The container used to be Running"
    lost = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message}}
    assert status.last_state == V1ContainerState.decode(lost)
    assert status.restart_count == 2


def test_removed_container_of_a_deleted_pod_is_not_counted_as_a_restart() -> None:
    deleted = pod(["foo"])
    deleted.metadata.deletion_timestamp = FINISHED

    assert statuses(deleted, old=[old(state=RUNNING, restartCount=1)])[0].restart_count == 1


def test_removed_container_that_waited_keeps_count_and_last_state() -> None:
    before = old(state={"waiting": {"reason": "X"}}, lastState={"terminated": ENDED}, restartCount=5)

    [status] = statuses(pod(["foo"]), old=[before])

    assert status.state == V1ContainerState.decode({"waiting": {"reason": "ContainerCreating"}})
    assert (status.last_state, status.restart_count) == (before.last_state, 5)


def test_removed_container_that_ran_keeps_an_earlier_end() -> None:
    before = old(state=RUNNING, lastState={"terminated": ENDED}, restartCount=2)

    [status] = statuses(pod(["foo"]), old=[before])

    assert (status.last_state, status.restart_count) == (before.last_state, 2)


def test_end_of_an_attempt_is_not_its_own_last_state() -> None:
    before = old(state={"terminated": ENDED})

    [status] = statuses(pod(["foo"], restartPolicy="Never"), exited("foo", 1, reason="Error"), old=[before])

    assert status.state == before.state
    assert status.last_state == V1ContainerState()


def test_last_state_is_kept_although_the_runtime_forgot_it() -> None:
    before = old(state=RUNNING, lastState={"terminated": ENDED})

    assert statuses(pod(["foo"]), attempt("foo"), old=[before])[0].last_state == before.last_state


def test_known_exit_status_is_reported_unchanged() -> None:
    [status] = statuses(pod(["foo"]), exited("foo", 1, reason="Error"), old=[old(state=RUNNING, restartCount=0)])

    assert status.state == V1ContainerState.decode({"terminated": ENDED})
    assert status.restart_count == 0


def test_container_in_unknown_state_that_waited_still_waits() -> None:
    [status] = statuses(pod(["foo"]), attempt("foo", ContainerState.UNKNOWN), old=[old(state={"waiting": {}})])

    assert status.state == V1ContainerState.decode({"waiting": {}})


def test_running_container_in_unknown_state_ended_with_unknown_status() -> None:
    [status] = statuses(pod(["foo"]), attempt("foo", ContainerState.UNKNOWN), old=[old(state=RUNNING, restartCount=1)])

    assert status.state.terminated is not None
    assert status.state.terminated.reason == "ContainerStatusUnknown"
    assert status.state.terminated.message == LOST + "terminated"
    assert status.state.terminated.exit_code == 137
    assert status.restart_count == 2


def test_restarts_are_counted_up_although_the_runtime_forgot_them() -> None:
    before = old(state={"terminated": {**ENDED, "containerID": "cri://gone"}}, restartCount=4, containerID="cri://gone")

    [status] = statuses(pod(["foo"]), attempt("foo"), old=[before])

    assert status.restart_count == 5
    assert status.last_state.terminated == before.state.terminated


def test_started_stays_with_the_same_container_only() -> None:
    before = old(state=RUNNING, started=True)

    assert statuses(pod(["foo"]), attempt("foo"), old=[before])[0].started
    assert statuses(pod(["foo"]), attempt("foo", number=1), old=[before])[0].started is None


@pytest.mark.parametrize(
    ("policy", "found", "applies"),
    [
        ("Always", exited("foo", 1, reason="Error"), True),
        ("OnFailure", exited("foo", 1, reason="Error"), True),
        ("Never", exited("foo", 1, reason="Error"), False),
        ("Always", attempt("foo"), False),
    ],
)
def test_container_that_is_to_start_again_waits_with_the_reason(
    policy: str, found: ContainerStatus, *, applies: bool
) -> None:
    [status] = statuses(pod(["foo"], restartPolicy=policy), found, reasons=crashing())

    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container=foo"}
    if applies:
        assert status.state == V1ContainerState.decode({"waiting": waiting})
        assert status.last_state == V1ContainerState.decode({"terminated": ENDED})
    else:
        assert status.state.waiting is None
        assert status.last_state == V1ContainerState()


def test_container_that_never_ran_waits_with_the_reason_and_has_no_last_state() -> None:
    reasons = crashing("ErrImagePull", "not found")

    [status] = statuses(pod(["foo"]), reasons=reasons)

    assert status.state == V1ContainerState.decode({"waiting": {"reason": "ErrImagePull", "message": "not found"}})
    assert status.last_state == V1ContainerState()


def test_ended_container_without_a_reason_stays_terminated_until_it_starts() -> None:
    assert statuses(pod(["foo"], restartPolicy="Always"), exited("foo", 1))[0].state.terminated is not None


def test_succeeded_init_container_keeps_its_state_despite_start_errors() -> None:
    with_init = pod(["bar"], initContainers=["foo"], restartPolicy="Always")
    found = runtime(exited("foo", 0, reason="Completed"))

    [status] = init_container_statuses(StatusSources(with_init, found, crashing(), "cri"), [])

    assert status.state.terminated is not None
    assert status.state.terminated.reason == "Completed"


def test_failed_init_container_waits_with_the_reason() -> None:
    with_init = pod(["bar"], initContainers=["foo"], restartPolicy="Always")
    found = runtime(exited("foo", 1, reason="Error"))

    [status] = init_container_statuses(StatusSources(with_init, found, crashing(), "cri"), [])

    assert status.state.waiting is not None
    assert status.state.waiting.reason == "CrashLoopBackOff"
    assert status.last_state == V1ContainerState.decode({"terminated": ENDED})


def test_vanished_init_container_keeps_its_known_end() -> None:
    before = old(state={"terminated": {**ENDED, "exitCode": 0, "reason": "Completed", "message": "bye"}})

    assert init_statuses(pod(["bar"], initContainers=["foo"]), attempt("bar"), old=[before]) == [before]


@pytest.mark.parametrize("own_policy", ["Never", "OnFailure", "Always"])
def test_vanished_init_container_has_ended_if_a_regular_one_exists(own_policy: str) -> None:
    with_init = pod(["bar"], initContainers=[sidecar("foo") | {"restartPolicy": own_policy}])

    [status] = init_statuses(with_init, attempt("bar"))

    if own_policy == "Always":
        assert status.state == V1ContainerState.decode({"waiting": {"reason": "PodInitializing"}})
    else:
        assert status.state.terminated is not None
        assert (status.state.terminated.exit_code, status.state.terminated.reason) == (0, "Completed")
        assert status.state.terminated.message == (
            "Unable to get init container status from container runtime and pod has been initialized, "
            "treat it as exited normally"
        )


def test_regular_container_in_unknown_state_says_nothing_of_a_vanished_init_container() -> None:
    with_init = pod(["bar"], initContainers=["foo"])

    [status] = init_statuses(with_init, attempt("bar", ContainerState.UNKNOWN))

    assert status.state == V1ContainerState.decode({"waiting": {"reason": "PodInitializing"}})


def test_old_statuses_are_not_changed() -> None:
    before = old(state={"terminated": ENDED})
    copy = V1ContainerStatus.decode(before.encode())

    statuses(pod(["foo"]), old=[before], reasons=crashing())

    assert before == copy


@pytest.mark.parametrize("found", [attempt("foo"), exited("foo", 1), attempt("foo", ContainerState.CREATED)])
def test_restart_count_does_not_fall_if_the_runtime_has_lost_containers(found: ContainerStatus) -> None:
    found.annotations[RESTART_COUNT] = "1"

    [status] = statuses(pod(["foo"]), found, old=[old(state=RUNNING, restartCount=5)])

    assert status.restart_count == 5
