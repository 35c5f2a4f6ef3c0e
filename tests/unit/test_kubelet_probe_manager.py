"""A container as its probes see it (kubelet's prober/worker.go)."""

import pytest

from harness.cri.messages import ContainerState
from harness.kubelet.probes.manager import view_of
from harness.kubelet.probes.results import ProbeResults
from harness.kubelet.status.runtime_pod_status import RuntimePodStatus
from tests.unit.kubelet_objects import attempt, pod, runtime


@pytest.mark.parametrize(("state", "running"), [(ContainerState.RUNNING, True), (ContainerState.EXITED, False)])
def test_a_started_container(state: ContainerState, running: object) -> None:
    of = pod()

    view = view_of(of, of.spec.containers[0], runtime(attempt("foo1", state)), ProbeResults())

    assert view is not None
    assert (view.container_id, view.running) == ("foo1-0", running)


@pytest.mark.parametrize("status", [runtime(), runtime(attempt("foo1", ContainerState.CREATED))])
def test_a_container_that_is_not_started_yet_is_waited_for(status: RuntimePodStatus) -> None:
    of = pod()

    assert view_of(of, of.spec.containers[0], status, ProbeResults()) is None
