"""Which containers and sandboxes are made and ended: the tables of kubelet's own TestComputePodActions."""

import pytest

from api.pod import V1Pod
from harness.cri.messages import ContainerState, NamespaceMode
from harness.kubelet.probes.results import ProbeResult
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus
from harness.kubelet.sync.pod_actions import ContainerToKill, PodActions, compute_pod_actions
from tests.unit.kubelet_objects import attempt, dead_sandbox, exited, pod, probes, runtime, sandbox

ALL = (0, 1, 2)
THREE = (attempt("foo1"), attempt("foo2"), attempt("foo3"))
SUCCEEDED = (exited("foo1"), exited("foo2"), exited("foo3"))


def acted(pod: V1Pod, status: RuntimePodStatus) -> PodActions:
    return compute_pod_actions(pod, status, probes())


KEPT = PodActions(sandbox_id="sandbox0")
NEW = PodActions(kill_pod=True, create_sandbox=True, sandbox_id="sandbox0", attempt=1)


@pytest.mark.parametrize(
    ("policy", "status", "expected"),
    [
        # No sandbox: everything is made.
        ("Always", runtime(sandboxes=()), PodActions(kill_pod=True, create_sandbox=True, to_start=ALL)),
        ("Never", runtime(sandboxes=()), PodActions(kill_pod=True, create_sandbox=True, to_start=ALL)),
        # All containers run.
        ("Always", runtime(*THREE), KEPT),
        # A container has exited.
        ("Always", runtime(exited("foo1"), *THREE[1:]), KEPT._replace(to_start=(0,))),
        ("OnFailure", runtime(exited("foo1"), *THREE[1:]), KEPT),
        ("OnFailure", runtime(exited("foo1", 1), *THREE[1:]), KEPT._replace(to_start=(0,))),
        ("Never", runtime(exited("foo1", 1), *THREE[1:]), KEPT),
        # A container is missing; created ones have not been started.
        ("Never", runtime(*THREE[1:]), KEPT._replace(to_start=(0,))),
        ("Never", runtime(attempt("foo1", ContainerState.CREATED), *THREE[1:]), KEPT._replace(to_start=(0,))),
        # All have exited.
        ("Always", runtime(*SUCCEEDED), KEPT._replace(to_start=ALL)),
        ("OnFailure", runtime(*SUCCEEDED), KEPT._replace(kill_pod=True)),
        ("Never", runtime(exited("foo1", 1), *SUCCEEDED[1:]), KEPT._replace(kill_pod=True)),
        ("OnFailure", runtime(exited("foo1", 1), *SUCCEEDED[1:]), KEPT._replace(to_start=(0,))),
        # The sandbox has ended under running containers.
        ("Always", runtime(*THREE, sandboxes=[dead_sandbox()]), NEW._replace(to_start=ALL)),
        ("OnFailure", runtime(*THREE, sandboxes=[dead_sandbox()]), NEW._replace(to_start=ALL)),
        ("Never", runtime(*THREE, sandboxes=[dead_sandbox()]), NEW._replace(create_sandbox=False)),
        # ... and no container was made in it.
        ("Never", runtime(sandboxes=[dead_sandbox()]), NEW._replace(to_start=ALL)),
        # ... and containers have succeeded before.
        (
            "OnFailure",
            runtime(exited("foo1"), exited("foo2", 1), sandboxes=[dead_sandbox()]),
            NEW._replace(to_start=(1, 2)),
        ),
        ("OnFailure", runtime(*SUCCEEDED, sandboxes=[dead_sandbox()]), NEW._replace(create_sandbox=False)),
        # Two ready sandboxes; one ready, but not the newest.
        ("Always", runtime(*THREE, sandboxes=[sandbox(1), sandbox()]), PodActions(
            kill_pod=True, create_sandbox=True, sandbox_id="sandbox1", attempt=2, to_start=ALL)),
        ("Always", runtime(*THREE, sandboxes=[dead_sandbox(1), sandbox()]), PodActions(
            kill_pod=True, create_sandbox=True, sandbox_id="sandbox1", attempt=2, to_start=ALL)),
        # A sandbox on the node's network, and one without an address.
        (
            "Always",
            runtime(*THREE, sandboxes=[sandbox(network=NamespaceMode.NODE)]),
            NEW._replace(sandbox_id="", to_start=ALL),
        ),
        ("Always", runtime(*THREE, sandboxes=[sandbox(ips=())]), NEW._replace(to_start=ALL)),
    ],
)  # fmt: skip
def test_actions_by_restart_policy_and_state(policy: str, status: RuntimePodStatus, expected: PodActions) -> None:
    assert acted(pod(restartPolicy=policy), status) == expected


def test_pod_on_the_nodes_network_needs_no_address() -> None:
    on_node = sandbox(ips=(), network=NamespaceMode.NODE)

    assert acted(pod(hostNetwork=True), runtime(*THREE, sandboxes=[on_node])) == KEPT


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_container_in_unknown_state_is_ended_before_it_starts_again(policy: str) -> None:
    status = runtime(attempt("foo1", ContainerState.UNKNOWN), *THREE[1:])

    kill = ContainerToKill(
        "foo1-0", "foo1", 'Container is in "unknown" state, try killing it before restart', "Unknown"
    )
    assert acted(pod(restartPolicy=policy), status) == KEPT._replace(to_start=(0,), to_kill=(kill,))


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_changed_definition_restarts_under_every_policy(policy: str) -> None:
    status = runtime(THREE[0], attempt("foo2", definition="0"), THREE[2])

    kill = ContainerToKill("foo2-0", "foo2", "Container foo2 definition changed, will be restarted")
    assert acted(pod(restartPolicy=policy), status) == KEPT._replace(to_start=(1,), to_kill=(kill,))


@pytest.mark.parametrize(
    ("policy", "own_policy", "again"),
    [
        ("Always", "", True),
        ("OnFailure", "", True),
        ("Never", "", False),
        ("Never", "OnFailure", True),
        ("Always", "Never", False),
    ],
)
@pytest.mark.parametrize("kind", ["liveness", "startup"])
def test_failed_probe_ends_a_container(policy: str, own_policy: str, kind: str, *, again: bool) -> None:
    results = probes()
    getattr(results, kind).set("foo2-0", "12345678", ProbeResult.FAILURE)
    containers = ["foo1", {"name": "foo2", "restartPolicy": own_policy}, "foo3"]

    actions = compute_pod_actions(pod(containers, restartPolicy=policy), runtime(*THREE), results)

    message = f"Container foo2 failed {kind} probe" + (", will be restarted" if again else "")
    reason = {"liveness": "LivenessProbe", "startup": "StartupProbe"}[kind]
    assert actions.to_kill == (ContainerToKill("foo2-0", "foo2", message, reason),)
    assert actions.to_start == ((1,) if again else ())
    assert not actions.kill_pod


@pytest.mark.parametrize("result", [ProbeResult.UNKNOWN, ProbeResult.SUCCESS])
def test_other_probe_results_end_nothing(result: ProbeResult) -> None:
    results = probes()
    for each in results:
        each.set("foo2-0", "12345678", result)

    assert compute_pod_actions(pod(), runtime(*THREE), results) == KEPT


def test_failed_readiness_ends_nothing() -> None:
    results = probes()
    results.readiness.set("foo2-0", "12345678", ProbeResult.FAILURE)

    assert compute_pod_actions(pod(), runtime(*THREE), results) == KEPT


def test_last_container_that_fails_a_probe_for_good_ends_the_pod() -> None:
    results = probes()
    results.liveness.set("foo1-0", "12345678", ProbeResult.FAILURE)

    actions = compute_pod_actions(pod(["foo1"], restartPolicy="Never"), runtime(attempt("foo1")), results)

    assert actions.kill_pod
    assert not actions.to_start


def test_containers_of_a_deleted_pod_do_not_start_again() -> None:
    deleted = pod(restartPolicy="Always")
    deleted.metadata.deletion_timestamp = "2027-01-15T08:00:00Z"

    assert acted(deleted, runtime(exited("foo1", 1), *THREE[1:])) == KEPT


@pytest.mark.parametrize(
    ("own_policy", "state", "exit_code", "starts"),
    [
        ("Never", ContainerState.EXITED, 1, False),
        ("OnFailure", ContainerState.EXITED, 0, False),
        ("OnFailure", ContainerState.EXITED, 1, True),
        ("Always", ContainerState.EXITED, 0, True),
        ("Never", ContainerState.CREATED, 0, True),
        ("Never", ContainerState.RUNNING, 0, False),
    ],
)
@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_own_policy_of_a_container_goes_before_the_pods(
    policy: str, own_policy: str, state: ContainerState, exit_code: int, *, starts: bool
) -> None:
    containers = [{"name": "foo1", "restartPolicy": own_policy}, "foo2"]
    status = runtime(attempt("foo1", state, exit_code=exit_code), attempt("foo2"))

    assert acted(pod(containers, restartPolicy=policy), status).to_start == ((0,) if starts else ())


@pytest.mark.parametrize(("existing", "expected"), [((), (0, 1)), (("bar",), (1,)), (("bar", "baz"), ())])
def test_ephemeral_containers_start_once(existing: tuple[str, ...], expected: tuple[int, ...]) -> None:
    with_two = pod(["foo1"], ephemeralContainers=["bar", "baz"], restartPolicy="Always")
    status = runtime(attempt("foo1"), *(exited(name, 1) for name in existing))

    assert acted(with_two, status) == KEPT._replace(ephemeral_to_start=expected)


def test_ephemeral_containers_start_while_init_containers_run() -> None:
    waiting = pod(["foo1"], initContainers=["init1"], ephemeralContainers=["bar"])

    assert acted(waiting, runtime(attempt("init1"))) == KEPT._replace(ephemeral_to_start=(0,))


def test_ephemeral_containers_do_not_start_in_a_sandbox_that_must_go() -> None:
    with_one = pod(["foo1"], ephemeralContainers=["bar"])

    assert acted(with_one, runtime(sandboxes=[dead_sandbox()])).ephemeral_to_start == ()
