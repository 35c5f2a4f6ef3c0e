"""A failing ADD of ptp or macvlan leaves nothing, whichever request to the kernel fails or loses its answer."""

from pathlib import Path
from typing import Any

import pytest

from tests.attachments import DUAL_STACK
from tests.node.faults import FaultAt, answer_lost_at, failing_at, fails_at_every_step
from tests.nodes import Node

CONFIGS: dict[str, dict[str, Any]] = {
    "ptp": {"type": "ptp", "ipMasq": True},
    "macvlan": {"type": "macvlan", "mode": "private", "bcqueuelen": 20},
    "macvlan-passthru": {"type": "macvlan", "master": "uplink0", "mode": "passthru"},
}


@pytest.mark.mostly_slow(3, "each request to the kernel; a part is in make test")
@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
@pytest.mark.parametrize("keys", CONFIGS.values(), ids=CONFIGS)
def test_add_with_any_failed_request_leaves_nothing(
    node: Node, direct_bin_dir: Path, keys: dict[str, Any], fault_at: FaultAt
) -> None:
    config = {"cniVersion": "1.1.0", "name": "net", "ipam": DUAL_STACK, **keys}
    node.pod_namespace("one")
    node.run(["ip", "link", "add", "uplink0", "up", "type", "veth", "peer", "name", "uplink1"])
    node.run(["ip", "link", "set", "uplink1", "up"])
    node.run(["ip", "route", "add", "default", "dev", "uplink0"])

    assert fails_at_every_step(node, direct_bin_dir, config, fault_at) >= 8
