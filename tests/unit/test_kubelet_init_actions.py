"""Which init containers and sidecars start: the tables of kubelet's TestComputePodActionsWithInitContainers."""

import pytest

from harness.cri.messages import ContainerState, ContainerStatus
from harness.kubelet.probes.results import ProbeResult
from harness.kubelet.sync.pod_actions import ContainerToKill, PodActions, compute_pod_actions
from tests.unit.kubelet_objects import attempt, dead_sandbox, exited, pod, probes, runtime, sidecar

KEPT = PodActions(sandbox_id="sandbox0")
END = KEPT._replace(kill_pod=True)
DONE = (exited("init1"), exited("init2"), exited("init3"))
POLICIES = ("Always", "OnFailure", "Never")
AGAIN = ("Always", "OnFailure")
THREE = (attempt("foo1"), attempt("foo2"), attempt("foo3"))
PROBE = {"exec": {"command": ["true"]}}


def init(index: int) -> PodActions:
    return KEPT._replace(init_to_start=(index,))


def kill(cause: str, reason: str = "") -> ContainerToKill:
    return ContainerToKill("side1-0", "side1", f"Init container side1 {cause}", reason)


def unknown(name: str) -> ContainerToKill:
    return ContainerToKill(
        f"{name}-0", name, 'Init container is in "unknown" state, try killing it before restart', "Unknown"
    )


@pytest.mark.parametrize(
    ("policies", "containers", "expected"),
    [
        (POLICIES, (), init(0)),
        (POLICIES, (attempt("init1"),), KEPT),
        (POLICIES, (attempt("init1", ContainerState.CREATED),), init(0)),
        (POLICIES, (exited("init1"),), init(1)),
        # The newest known one decides: earlier ones may have been removed.
        (POLICIES, (exited("init2"),), init(2)),
        (POLICIES, (exited("init2"), exited("init1", 1)), init(2)),
        (POLICIES, (exited("init3"),), KEPT._replace(to_start=(0, 1, 2))),
        (POLICIES, DONE, KEPT._replace(to_start=(0, 1, 2))),
        # A failure, and one by the kernel's hand with any code.
        (AGAIN, (exited("init1", 1),), init(0)),
        (("Never",), (exited("init1", 1),), END),
        (AGAIN, (exited("init3", 1),), init(2)),
        (AGAIN, (exited("foo1"), exited("foo2"), exited("foo3"), exited("init1", 1)), init(0)),
        (("Always",), (exited("init1", 0, reason="OOMKilled"),), init(0)),
        (("Never", "OnFailure"), (exited("init1", 0, reason="OOMKilled"),), END),
        # Unknown state.
        (AGAIN, (attempt("init1", ContainerState.UNKNOWN),), init(0)._replace(to_kill=(unknown("init1"),))),
        (("Never",), (attempt("init1", ContainerState.UNKNOWN),), END),
        # A regular container runs, or is created: the pod is initialised, whatever is known of its init containers.
        (POLICIES, THREE, KEPT),
        (POLICIES, (*THREE, exited("init1", 1)), KEPT),
        (POLICIES, (attempt("foo1", ContainerState.CREATED), *THREE[1:]), KEPT._replace(to_start=(0,))),
        # All regular containers have exited, as after a reboot: the init containers decide.
        (("Never", "OnFailure"), (exited("foo1"), exited("foo2"), exited("foo3"), *DONE), END),
        (("Always",), (exited("foo1"), exited("foo2"), exited("foo3"), *DONE), KEPT._replace(to_start=(0, 1, 2))),
    ],
)  # fmt: skip
def test_init_containers_run_one_after_the_other(
    policies: tuple[str, ...], containers: tuple[ContainerStatus, ...], expected: PodActions
) -> None:
    for policy in policies:
        three = pod(initContainers=["init1", "init2", "init3"], restartPolicy=policy)

        assert compute_pod_actions(three, runtime(*containers), probes()) == expected, policy


@pytest.mark.parametrize(
    ("policy", "containers", "expected"),
    [
        ("Always", DONE, PodActions(True, True, "sandbox0", 1, init_to_start=(0,))),
        ("OnFailure", (exited("init1", 1),), PodActions(True, True, "sandbox0", 1, init_to_start=(0,))),
        ("Never", DONE, PodActions(True, False, "sandbox0", 1)),
        ("Never", (), PodActions(True, True, "sandbox0", 1, init_to_start=(0,))),
        (
            "OnFailure",
            (exited("foo1"), exited("foo2"), exited("foo3"), *DONE),
            PodActions(True, False, "sandbox0", 1),
        ),
    ],
)  # fmt: skip
def test_new_sandbox_runs_all_init_containers_again(
    policy: str, containers: tuple[ContainerStatus, ...], expected: PodActions
) -> None:
    three = pod(initContainers=["init1", "init2", "init3"], restartPolicy=policy)

    assert compute_pod_actions(three, runtime(*containers, sandboxes=[dead_sandbox()]), probes()) == expected


SIDE = (attempt("side1"), attempt("side2"))
FOO = attempt("foo1")


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ((), init(0)),
        # A sidecar without a startup probe is started once it runs.
        ((attempt("side1"),), init(1)),
        (SIDE, KEPT._replace(to_start=(0,))),
        ((*SIDE, FOO), KEPT),
        # An exited sidecar starts again, before and after initialisation.
        ((exited("side1", 1),), init(0)),
        ((attempt("side2"), exited("side1")), KEPT._replace(init_to_start=(0,), to_start=(0,))),
        ((exited("side1"), exited("side2"), FOO), KEPT._replace(init_to_start=(0, 1))),
        # A sidecar that the runtime has removed.
        ((FOO, attempt("side1")), KEPT._replace(init_to_start=(1,))),
        ((FOO,), KEPT._replace(init_to_start=(0, 1))),
        ((attempt("side1", ContainerState.CREATED),), init(0)),
        (
            (attempt("side1", ContainerState.UNKNOWN), attempt("side2"), FOO),
            KEPT._replace(init_to_start=(0,), to_kill=(unknown("side1"),)),
        ),
        # Another definition: the next one may start all the same.
        (
            (attempt("side1", definition="0"),),
            KEPT._replace(init_to_start=(0, 1), to_kill=(kill("definition changed"),)),
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("policy", POLICIES)
def test_sidecars_start_in_order_and_start_again(
    policy: str, containers: tuple[ContainerStatus, ...], expected: PodActions
) -> None:
    with_two = pod(["foo1"], initContainers=[sidecar("side1"), sidecar("side2")], restartPolicy=policy)

    assert compute_pod_actions(with_two, runtime(*containers), probes()) == expected


@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
def test_sidecars_do_not_keep_a_finished_pod_alive(policy: str) -> None:
    with_one = pod(["foo1"], initContainers=[sidecar("side1")], restartPolicy=policy)

    assert compute_pod_actions(with_one, runtime(exited("foo1"), attempt("side1")), probes()) == END


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, KEPT),
        (ProbeResult.UNKNOWN, KEPT),
        (ProbeResult.SUCCESS, init(1)),
        (
            ProbeResult.FAILURE,
            init(0)._replace(to_kill=(kill("failed startup probe", "StartupProbe"),)),
        ),
    ],
)  # fmt: skip
def test_startup_probe_of_a_sidecar_holds_the_next_back(result: ProbeResult | None, expected: PodActions) -> None:
    with_two = pod(["foo1"], initContainers=[sidecar("side1", startupProbe=PROBE), "init2"])
    results = probes()
    if result is not None:
        results.startup.set("side1-0", "12345678", result)

    assert compute_pod_actions(with_two, runtime(attempt("side1")), results) == expected


def test_liveness_probe_of_a_sidecar_restarts_it_and_holds_nothing_back() -> None:
    with_two = pod(["foo1"], initContainers=[sidecar("side1", livenessProbe=PROBE), "init2"], restartPolicy="Never")
    results = probes()
    results.liveness.set("side1-0", "12345678", ProbeResult.FAILURE)

    actions = compute_pod_actions(with_two, runtime(attempt("side1")), results)

    expected = KEPT._replace(init_to_start=(0, 1), to_kill=(kill("failed liveness probe", "LivenessProbe"),))
    assert actions == expected


def test_sidecar_before_a_running_init_container_is_kept_running() -> None:
    with_two = pod(["foo1"], initContainers=[sidecar("side1"), "init2"])

    actions = compute_pod_actions(with_two, runtime(attempt("init2"), exited("side1", 1)), probes())

    assert actions == init(0)


def test_own_policy_of_an_init_container_goes_before_the_pods() -> None:
    never = pod(["foo1"], initContainers=[{"name": "init1", "restartPolicy": "Never"}], restartPolicy="Always")
    again = pod(["foo1"], initContainers=[{"name": "init1", "restartPolicy": "OnFailure"}], restartPolicy="Never")

    assert compute_pod_actions(never, runtime(exited("init1", 1)), probes()) == END
    assert compute_pod_actions(again, runtime(exited("init1", 1)), probes()) == init(0)
