"""When a probe is executed, and what counts of its results."""

from typing import TYPE_CHECKING, cast

import pytest

from api.container import V1Probe
from harness.kubelet.probes.results import ProbeResult, ProbeResults
from harness.kubelet.probes.worker import (
    LIVENESS,
    READINESS,
    STARTUP,
    ContainerView,
    ProbeOutcome,
    ProbeWorker,
    probe_once,
)
from tests.unit.kubelet_objects import pod

if TYPE_CHECKING:
    from harness.cri.service import RuntimeService

GOOD = ProbeOutcome(ProbeResult.SUCCESS, "")
BAD = ProbeOutcome(ProbeResult.FAILURE, "no")
BROKEN = ProbeOutcome(ProbeResult.UNKNOWN, "cannot", error=True)


class Scripted:
    """A container in the state that a test gives it; it answers probes with `outcomes`, and then with success."""

    uid = "u1"

    def __init__(self) -> None:
        self.state: ContainerView | None = ContainerView(
            "c1", running=True, started=True, started_at=1000.0, restarts=True
        )
        self.outcomes: list[ProbeOutcome] = []
        self.executions = 0
        self.events: list[str] = []

    def view(self) -> ContainerView | None:
        return self.state

    def execute(self, container_id: str) -> ProbeOutcome:
        assert self.state is not None
        assert container_id == self.state.container_id
        self.executions += 1
        return self.outcomes.pop(0) if self.outcomes else GOOD

    def unhealthy(self, message: str) -> None:
        self.events.append(message)


class Probed:
    """A worker with its results, at the time `now`."""

    def __init__(self, kind: str, **probe: object) -> None:
        self.now = 1000.0
        self.container = Scripted()
        self.results = ProbeResults()
        described = V1Probe.decode({"exec": {"command": ["true"]}, **probe})
        self.worker = ProbeWorker(kind, described, self.container, self.results, clock=lambda: self.now)

    def probe(self, *outcomes: ProbeOutcome, times: int = 0) -> ProbeResult | None:
        """Probe once for each outcome, or some times; return the result that counts then."""
        self.container.outcomes = list(outcomes)
        for _ in range(times or len(outcomes)):
            assert self.worker.probe()
        return self.results.get("c1")


@pytest.mark.parametrize(
    ("kind", "result"),
    [(READINESS, ProbeResult.FAILURE), (LIVENESS, ProbeResult.SUCCESS), (STARTUP, ProbeResult.UNKNOWN)],
)
def test_until_the_delay_is_over_the_first_result_counts(kind: str, result: ProbeResult) -> None:
    probed = Probed(kind, initialDelaySeconds=10)
    if kind == STARTUP and probed.container.state is not None:
        probed.container.state = probed.container.state._replace(started=False)
    probed.now = 1009.9

    assert probed.probe(times=1) is result
    assert probed.container.executions == 0

    probed.now = 1010
    probed.probe(times=1)
    assert probed.container.executions == 1


def test_a_result_counts_after_its_threshold() -> None:
    probed = Probed(READINESS, failureThreshold=3, successThreshold=2)

    assert probed.probe(GOOD) is ProbeResult.FAILURE
    assert probed.probe(GOOD) is ProbeResult.SUCCESS
    assert probed.probe(BAD, BAD) is ProbeResult.SUCCESS
    assert probed.probe(GOOD, BAD, BAD) is ProbeResult.SUCCESS
    assert probed.probe(BAD) is ProbeResult.FAILURE
    assert probed.container.events == ["Readiness probe failed: no"] * 5


def test_a_probe_that_cannot_be_made_is_tried_three_times_and_changes_nothing() -> None:
    probed = Probed(READINESS, failureThreshold=1)
    probed.probe(GOOD)
    probed.container.outcomes = [BROKEN, BROKEN, BROKEN]

    probed.worker.probe()

    assert probed.results.get("c1") is ProbeResult.SUCCESS
    assert probed.container.executions == 4
    assert probed.container.events == ["Readiness probe errored and resulted in unknown state: cannot"]


def test_after_a_failed_liveness_probe_the_next_container_is_waited_for() -> None:
    probed = Probed(LIVENESS, failureThreshold=1)

    assert probed.probe(BAD) is ProbeResult.FAILURE
    probed.probe(times=2)
    assert probed.container.executions == 1

    probed.container.state = ContainerView("c2", running=True, started=True, started_at=1000.0, restarts=True)
    probed.probe(times=1)
    assert (probed.results.get("c1"), probed.results.get("c2")) == (None, ProbeResult.SUCCESS)
    assert probed.container.executions == 2


def test_only_a_startup_probe_is_made_until_the_container_has_started() -> None:
    for kind, expected in ((STARTUP, 1), (READINESS, 0), (LIVENESS, 0)):
        probed = Probed(kind)
        assert probed.container.state is not None
        probed.container.state = probed.container.state._replace(started=False)

        probed.probe(times=1)

        assert (kind, probed.container.executions) == (kind, expected)


def test_a_startup_probe_that_succeeded_is_not_made_again() -> None:
    probed = Probed(STARTUP)
    assert probed.container.state is not None
    probed.container.state = probed.container.state._replace(started=False)

    assert probed.probe(GOOD) is ProbeResult.SUCCESS
    probed.probe(times=3)

    assert probed.container.executions == 1


def test_an_ended_container_has_failed_and_ends_the_probes_if_it_stays_so() -> None:
    probed = Probed(READINESS)
    probed.probe(GOOD)
    for restarts in (True, False):
        probed.container.state = ContainerView("c1", running=False, started=False, started_at=0, restarts=restarts)

        assert probed.worker.probe() is restarts
        assert probed.results.get("c1") is ProbeResult.FAILURE


def test_a_container_that_does_not_exist_yet_is_waited_for() -> None:
    probed = Probed(READINESS)
    probed.container.state = None

    assert probed.worker.probe()
    assert probed.container.executions == 0


def test_an_answer_after_the_end_makes_no_event() -> None:
    probed = Probed(LIVENESS)

    def execute(container_id: str) -> ProbeOutcome:
        probed.worker.stop()
        return ProbeOutcome(ProbeResult.FAILURE, container_id)

    probed.container.execute = execute  # type: ignore[method-assign]  # the pod ends during the probe
    probed.probe(times=1)

    assert probed.container.events == []


def test_a_header_of_no_valid_form_is_a_failure() -> None:
    described = pod([{"name": "c"}])
    header = {"name": "X-Note", "value": "two\nlines"}
    probe = V1Probe.decode({"httpGet": {"port": 80, "path": "/", "httpHeaders": [header]}})
    unused = cast("RuntimeService", None)

    outcome = probe_once(
        probe, described.spec.containers[0], "c1", "192.0.2.1", service=unused, on_node=lambda function: function()
    )

    assert outcome.result is ProbeResult.FAILURE
    assert "Invalid header value" in outcome.output
