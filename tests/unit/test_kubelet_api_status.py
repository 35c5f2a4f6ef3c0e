"""A pod's status as a whole: phase, probes, addresses, deadline, times."""

from datetime import UTC, datetime, timedelta

import pytest

from api.pod import V1Pod
from api.status import V1PodStatus
from harness.cri.messages import NamespaceMode
from harness.kubelet.probes.results import ProbeResult, Probes
from harness.kubelet.server import pod_document
from harness.kubelet.status.api_status import generate_api_pod_status
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus
from harness.kubelet.status.start_errors import ReasonCache
from tests.unit.kubelet_objects import (
    IP,
    START,
    UID,
    attempt,
    dead_sandbox,
    exited,
    pod,
    probes,
    runtime,
    sandbox,
    sidecar,
)

NOW = datetime.fromtimestamp(START, UTC) + timedelta(minutes=10)
PROBE = {"exec": {"command": ["true"]}}


def generated(
    pod: V1Pod,
    status: RuntimePodStatus,
    *,
    old: V1PodStatus | None = None,
    results: Probes | None = None,
    now: datetime = NOW,
    terminal: bool = False,
) -> V1PodStatus:
    return generate_api_pod_status(
        pod,
        status,
        old=old,
        reasons=ReasonCache(),
        probes=results or probes(),
        runtime_name="cri",
        host_ip="192.0.2.1",
        now=now,
        terminal=terminal,
    )


def conditions(status: V1PodStatus) -> dict[str, str]:
    return {condition.type: condition.status for condition in status.conditions}


def test_status_of_a_new_pod() -> None:
    status = generated(pod(["a"], restartPolicy="Always"), runtime(sandboxes=()))

    assert (status.phase, status.pod_ip, status.pod_ips, status.host_ip) == ("Pending", "", [], "192.0.2.1")
    assert (status.qos_class, status.start_time) == ("BestEffort", "2027-01-15T08:10:00Z")
    assert conditions(status) == {
        "PodReadyToStartContainers": "False",
        "Initialized": "True",
        "Ready": "False",
        "ContainersReady": "False",
        "PodScheduled": "True",
    }


def test_status_of_a_running_pod_keeps_its_times() -> None:
    old = generated(pod(["a"]), runtime(sandboxes=()))

    status = generated(pod(["a"]), runtime(attempt("a")), old=old, now=NOW + timedelta(minutes=1))

    assert (status.phase, status.pod_ip, status.pod_ips) == ("Running", IP, [IP])
    assert status.start_time == "2027-01-15T08:10:00Z"
    assert set(conditions(status).values()) == {"True"}
    assert {condition.type: condition.last_transition_time for condition in status.conditions} == {
        "PodReadyToStartContainers": "2027-01-15T08:11:00Z",
        "Initialized": "2027-01-15T08:10:00Z",
        "Ready": "2027-01-15T08:11:00Z",
        "ContainersReady": "2027-01-15T08:11:00Z",
        "PodScheduled": "2027-01-15T08:10:00Z",
    }


def test_pod_on_the_nodes_network_has_the_nodes_address() -> None:
    on_node = sandbox(ips=(), network=NamespaceMode.NODE)

    status = generated(pod(["a"], hostNetwork=True), runtime(sandboxes=[on_node]))

    assert (status.pod_ip, status.pod_ips) == ("192.0.2.1", ["192.0.2.1"])


def test_an_ended_pod_keeps_its_addresses_until_a_new_sandbox_is_ready() -> None:
    running = generated(pod(["a"]), runtime(attempt("a")))

    ended = generated(pod(["a"]), runtime(exited("a"), sandboxes=[dead_sandbox()]), old=running)
    without_address = sandbox(1)
    without_address.ips = []
    again = generated(pod(["a"]), runtime(sandboxes=[without_address]), old=ended)

    assert (ended.pod_ip, ended.pod_ips) == (IP, [IP])
    assert (again.pod_ip, again.pod_ips) == ("", [])


def test_the_document_has_the_keys_that_the_api_always_has() -> None:
    requests = {"cpu": "100m"}
    described = pod([{"name": "a", "resources": {"requests": requests}}, "b", "c"])
    status = generated(described, runtime(attempt("a"), attempt("b")))
    document = pod_document(described, status)["status"]

    a, b, c = document["containerStatuses"]
    assert (a["ready"], a["restartCount"], a["lastState"]) == (True, 0, {})
    assert (a["resources"], a["allocatedResources"]) == ({"requests": requests}, requests)
    assert (b["resources"], "allocatedResources" in b) == ({}, False)
    assert (c["ready"], c["imageID"], "resources" in c) == (False, "", False)
    assert (document["hostIPs"], document["podIPs"]) == ([{"ip": "192.0.2.1"}], [{"ip": IP}])
    assert "podIPs" not in pod_document(described, generated(described, runtime(sandboxes=())))["status"]


@pytest.mark.parametrize(
    ("keys", "startup", "readiness", "started", "ready"),
    [
        ({}, None, None, True, True),
        ({"startupProbe": PROBE}, None, None, False, False),
        ({"startupProbe": PROBE}, ProbeResult.UNKNOWN, None, False, False),
        ({"startupProbe": PROBE}, ProbeResult.FAILURE, None, False, False),
        ({"startupProbe": PROBE}, ProbeResult.SUCCESS, None, True, True),
        ({"readinessProbe": PROBE}, None, None, True, False),
        ({"readinessProbe": PROBE}, None, ProbeResult.FAILURE, True, False),
        ({"readinessProbe": PROBE}, None, ProbeResult.SUCCESS, True, True),
        ({"startupProbe": PROBE, "readinessProbe": PROBE}, ProbeResult.FAILURE, ProbeResult.SUCCESS, False, False),
        ({"startupProbe": PROBE, "readinessProbe": PROBE}, ProbeResult.SUCCESS, ProbeResult.SUCCESS, True, True),
    ],
)
@pytest.mark.parametrize("kind", ["regular", "sidecar"])
def test_probes_make_containers_started_and_ready(
    kind: str,
    keys: dict[str, object],
    startup: ProbeResult | None,
    readiness: ProbeResult | None,
    *,
    started: bool,
    ready: bool,
) -> None:
    results = probes()
    if startup is not None:
        results.startup.set("a-0", UID, startup)
    if readiness is not None:
        results.readiness.set("a-0", UID, readiness)
    regular = kind == "regular"
    given = pod([{"name": "a", **keys}] if regular else ["b"], initContainers=[] if regular else [sidecar("a", **keys)])

    status = generated(given, runtime(attempt("a"), attempt("b")), results=results)

    [found] = status.container_statuses if regular else status.init_container_statuses
    assert (found.started, found.ready) == (started, ready)
    assert conditions(status)["Ready"] == str(ready)


def test_container_started_in_kubelets_former_run_stays_started() -> None:
    given = pod([{"name": "a", "startupProbe": PROBE}])
    results = probes()
    results.startup.set("a-0", UID, ProbeResult.SUCCESS)
    old = generated(given, runtime(attempt("a")), results=results)

    assert generated(given, runtime(attempt("a")), old=old).container_statuses[0].started
    assert not generated(given, runtime(attempt("a", number=1)), old=old).container_statuses[0].started


@pytest.mark.parametrize(("exit_code", "ready"), [(0, True), (1, False)])
def test_init_container_is_ready_when_it_has_succeeded(exit_code: int, *, ready: bool) -> None:
    status = generated(pod(["a"], initContainers=["i"]), runtime(exited("i", exit_code)))

    assert status.init_container_statuses[0].ready is ready
    assert status.init_container_statuses[0].started is False


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_terminal_phase_is_never_left(phase: str) -> None:
    old = V1PodStatus(phase=phase, reason="Evicted", message="by hand")

    status = generated(pod(["a"]), runtime(attempt("a")), old=old)

    assert (status.phase, status.reason, status.message) == (phase, "Evicted", "by hand")


def test_reason_goes_with_the_phase_it_belongs_to() -> None:
    old = V1PodStatus(phase="Pending", reason="Why", message="so")

    assert generated(pod(["a"]), runtime(), old=old).reason == "Why"
    assert generated(pod(["a"]), runtime(attempt("a")), old=old).reason == ""


@pytest.mark.parametrize(("seconds", "phase"), [(599, "Failed"), (600, "Failed"), (601, "Running")])
def test_pod_fails_when_its_deadline_is_over(seconds: int, phase: str) -> None:
    old = V1PodStatus(phase="Running", start_time="2027-01-15T08:00:00Z")

    status = generated(pod(["a"], activeDeadlineSeconds=seconds), runtime(attempt("a")), old=old)

    assert status.phase == phase
    if phase == "Failed":
        assert status.reason == "DeadlineExceeded"
        assert status.message == "Pod was active on the node longer than the specified deadline"
        assert {condition.reason for condition in status.conditions if condition.type == "Ready"} == {"PodFailed"}


def test_pod_that_succeeded_in_time_has_no_deadline() -> None:
    old = V1PodStatus(phase="Succeeded", start_time="2027-01-15T08:00:00Z")

    assert generated(pod(["a"], activeDeadlineSeconds=1), runtime(), old=old).phase == "Succeeded"


def test_sidecar_that_starts_again_does_not_make_a_running_pod_pending() -> None:
    with_sidecar = pod(["a"], initContainers=[sidecar("s", startupProbe=PROBE)])

    assert generated(with_sidecar, runtime(attempt("a"), attempt("s"))).phase == "Running"
    in_old_sandbox = runtime(attempt("a"), attempt("s"), sandboxes=[dead_sandbox()])
    assert generated(with_sidecar, in_old_sandbox).phase == "Pending"


def test_stopped_pod_is_failed_or_succeeded() -> None:
    stopped = pod(["a"], restartPolicy="Always")

    assert generated(stopped, runtime(exited("a", 137)), terminal=True).phase == "Failed"
    assert generated(stopped, runtime(exited("a")), terminal=True).phase == "Succeeded"
    assert generated(stopped, runtime(exited("a"))).phase == "Running"


def test_ephemeral_containers_have_statuses_but_do_not_affect_the_phase() -> None:
    status = generated(pod(["a"], ephemeralContainers=["e"]), runtime(attempt("a"), exited("e", 1)))

    assert [found.name for found in status.ephemeral_container_statuses] == ["e"]
    assert status.phase == "Running"
    assert conditions(status)["Ready"] == "True"


def test_generating_changes_nothing_it_was_given() -> None:
    given = pod(["a"], initContainers=["i"])
    old = generated(given, runtime(exited("a", 1), exited("i")))
    copy = V1PodStatus.decode(old.encode())

    generated(given, runtime(), old=old, now=NOW + timedelta(minutes=1))

    assert old == copy
