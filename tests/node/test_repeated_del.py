"""DEL as runtimes repeat it, with CNI_NETNS empty and without a result: it removes each kind of leftover."""

from pathlib import Path
from typing import Any

import pytest

from harness.snapshot import differences
from tests.attachments import KEPT_BY_NODE, Network, bridge_config
from tests.nodes import Node

MEGABIT = 1_000_000
LIMITS = {"ingressRate": MEGABIT, "ingressBurst": MEGABIT, "egressRate": MEGABIT, "egressBurst": MEGABIT}
KEPT = [*KEPT_BY_NODE, "node/qdisc/*", "node/filter/*"]
"""The qdiscs of a pair end with the pair."""


def plugins_of(node: Node, bin_dir: Path, backend: str) -> list[Network]:
    """Return bridge, portmap, bandwidth, firewall and tuning, with rules by `backend`."""
    chained: list[dict[str, Any]] = [
        {"type": "portmap", "backend": backend, "capabilities": {"portMappings": True}},
        {"type": "bandwidth", **LIMITS},
        {"type": "firewall", "backend": backend},
        {"type": "tuning", "mtu": 1400, "dataDir": str(node.folder / "tuning")},
    ]
    common = {"cniVersion": "1.1.0", "name": "net"}
    return [
        Network(node, bin_dir, bridge_config(ipMasq=True, ipMasqBackend=backend)),
        *(Network(node, bin_dir, {**common, **each}) for each in chained),
    ]


def attach(plugin: Network, pod: str, result: dict[str, Any] | None, port: int) -> dict[str, Any]:
    """ADD a pod by one plugin of the list, after those before it; return the result."""
    mapped = [{"hostPort": port, "containerPort": 80, "protocol": "udp"}]
    changes: dict[str, Any] = {"runtimeConfig": {"portMappings": mapped}} if plugin.config["type"] == "portmap" else {}
    if result is not None:
        changes["prevResult"] = result
    done: dict[str, Any] = plugin.succeed("ADD", pod, **changes)
    return done


@pytest.mark.parametrize("backend", ["nftables", "iptables"])
def test_del_without_netns_and_result_removes_every_leftover(node: Node, bin_dir: Path, backend: str) -> None:
    plugins = plugins_of(node, bin_dir, backend)
    for pod in ("staying", "leaving"):
        node.pod_namespace(pod)
    result: dict[str, Any] | None = None
    for plugin in plugins:
        result = attach(plugin, "staying", result, 8080)
    result = None
    states = []
    for plugin in plugins:
        states.append(node.state())
        result = attach(plugin, "leaving", result, 8081)

    for plugin, before in reversed(list(zip(plugins, states, strict=True))):
        name = plugin.config["type"]
        assert differences(before, node.state(), ignore=KEPT), f"the ADD of {name} has left nothing to remove"
        plugin.succeed("DEL", "leaving", netns="")

        node.assert_same_state(before, ignore=KEPT, within=5)
        plugin.succeed("DEL", "leaving", netns="")
        node.assert_same_state(before, ignore=KEPT)
