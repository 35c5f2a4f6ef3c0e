"""A failing ADD of ptp or macvlan leaves nothing, whichever request to the kernel fails or loses its answer."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.attachments import DUAL_STACK
from tests.node.faults import INJECTED, answer_lost_at, dispatched, failing_at
from tests.nodes import HANG, Node

KEPT = [
    "node/sysctl/*",
    "files/*networks",
    "files/*networks/net",
    "files/*/lock",
    "files/*last_reserved_ip*",
    "files/*/.owners",
]
"""Forwarding, and traces of reservations that are none, as of bridge."""
CONFIGS: dict[str, dict[str, Any]] = {
    "ptp": {"type": "ptp", "ipMasq": True},
    "macvlan": {"type": "macvlan", "mode": "private", "bcqueuelen": 20},
    "macvlan-passthru": {"type": "macvlan", "master": "uplink0", "mode": "passthru"},
}


@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
@pytest.mark.parametrize("keys", CONFIGS.values(), ids=CONFIGS)
def test_at_every_request_to_the_kernel(
    node: Node,
    direct_bin_dir: Path,
    keys: dict[str, Any],
    fault_at: Callable[[int], AbstractContextManager[list[str]]],
) -> None:
    config = {"cniVersion": "1.1.0", "name": "net", "ipam": DUAL_STACK, **keys}
    pod = node.pod_namespace("one")
    node.run(["ip", "link", "add", "uplink0", "up", "type", "veth", "peer", "name", "uplink1"])
    node.run(["ip", "link", "set", "uplink1", "up"])
    node.run(["ip", "route", "add", "default", "dev", "uplink0"])
    before, links = node.state(), node.ip("link", netns=pod)
    step = 0
    while True:
        step += 1
        with fault_at(step) as seen:
            outcome = dispatched(node, direct_bin_dir, "ADD", config, "one")
        if outcome.code == 0:
            break

        assert INJECTED.encode() in outcome.stdout, outcome
        assert b"undoing" not in outcome.stderr, outcome
        node.assert_same_state(before, ignore=KEPT, within=HANG)
        assert node.ip("link", netns=pod) == links, step

    assert len(seen) < step
    assert step > 8
