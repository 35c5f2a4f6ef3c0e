"""The grace period of a container that a probe ends (kubelet's setTerminationGracePeriod)."""

import pytest

from harness.kubelet.sync.pod_actions import LIVENESS_PROBE, STARTUP_PROBE, probe_grace_period
from tests.unit.kubelet_objects import pod


@pytest.mark.parametrize(
    ("reason", "deletion", "expected"),
    [(LIVENESS_PROBE, None, 3), (STARTUP_PROBE, None, None), ("", None, None), (LIVENESS_PROBE, 7, None)],
)
def test_probes_own_period_holds_unless_the_pod_is_deleted(
    reason: str, deletion: int | None, expected: int | None
) -> None:
    probe = {"tcpSocket": {"port": 80}}
    of = pod([{"name": "c", "livenessProbe": probe | {"terminationGracePeriodSeconds": 3}, "startupProbe": probe}])
    of.metadata.deletion_grace_period_seconds = deletion

    assert expected == probe_grace_period(of, of.spec.containers[0], reason)
