"""The agent's rights: those of the container in docs/examples/agent.yaml."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.kernel import PROTOCOL
from agent.plan import TUNNEL
from firewall.cluster_masquerade import TABLE
from tests.cli import ROOT
from tests.nodes import Node, until, veth_between

pytestmark = pytest.mark.sudo

NET_ADMIN = 12
"""CAP_NET_ADMIN, capabilities(7)."""


def test_an_agent_with_net_admin_alone_makes_all_that_a_node_needs(
    make_node: Callable[[], Node], tmp_path: Path
) -> None:
    node, router = make_node(), make_node()
    wire = veth_between(node, router)
    node.run(["ip", "route", "add", "default", "via", wire.ipv4[1]])
    manifests = tmp_path / "nodes"
    manifests.mkdir()
    addresses = (wire.ipv4[0], wire.ipv4[1], "198.51.100.9")
    for number, address in enumerate(addresses):
        content = {
            "kind": "Node",
            "metadata": {"name": f"node-{number}"},
            "spec": {"podCIDRs": [f"10.244.{number}.0/24"]},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        }
        (manifests / f"node-{number}.json").write_text(json.dumps(content))
    rights = ["--bounding-set=-all,+net_admin", "--inh-caps=-all,+net_admin", "--no-new-privs"]
    agent = ["-m", "harness.cli.main", f"--state-dir={tmp_path / 'state'}", f"--conf-dir={tmp_path / 'net.d'}", "agent"]
    options = ["--node-name=node-0", f"--manifests={manifests}", "--cluster-cidr=10.244.0.0/16"]

    with node.background(
        ["setpriv", *rights, sys.executable, *agent, *options], env={"PYTHONPATH": str(ROOT)}
    ) as process:
        until(lambda: len(routes(node)) == 2 and list((tmp_path / "net.d").glob("*.conflist")), within=60)

        status = Path(f"/proc/{process.pid}/status").read_text()
        [effective] = [line.split()[1] for line in status.splitlines() if line.startswith("CapEff")]
    assert int(effective, 16) == 1 << NET_ADMIN
    node.run(["nft", "list", "table", "inet", TABLE])
    assert routes(node) == {"10.244.1.0/24": "uplink0", "10.244.2.0/24": TUNNEL}


def routes(node: Node) -> dict[str, str]:
    """The links of the agent's routes, by their destinations."""
    return {route["dst"]: route["dev"] for route in node.ip("route", "show", "proto", str(PROTOCOL))}
