"""A failing ADD of portmap leaves nothing, whichever request to the kernel fails or loses its answer."""

from pathlib import Path
from typing import Any

import pytest

from firewall import port_mappings_iptables, port_mappings_rules
from tests.node.faults import FaultAt, answer_lost_at, dispatched, failing_at, failing_once, fails_at_every_step
from tests.nodes import Node
from tests.port_mappings import Ports, mapping

MAPPINGS = [mapping(8080, 80), mapping(5353, 53, "udp", hostIP="192.0.2.1"), mapping(5354, 54, "udp")]
CONDITIONS = {"conditionsV4": ["ip saddr 192.0.2.0/24"]}


def config(node: Node, bin_dir: Path, **keys: Any) -> dict[str, Any]:
    """Attach the pod `one` to a bridge; return what portmap gets."""
    ports = Ports(node, bin_dir, **keys)
    ports.bridge.config["name"] = "bridged"  # whose reservations stay
    ports.attach("one")
    runtime_config = {"portMappings": MAPPINGS}
    return {**ports.portmap.config, "prevResult": ports.results["one"], "runtimeConfig": runtime_config, "ipam": {}}


@pytest.mark.parametrize("fault_at", [failing_at, answer_lost_at])
@pytest.mark.parametrize("keys", [{}, CONDITIONS], ids=["plain", "conditions"])
def test_add_with_any_failed_request_leaves_nothing(
    node: Node, direct_bin_dir: Path, keys: dict[str, Any], fault_at: FaultAt
) -> None:
    assert fails_at_every_step(node, direct_bin_dir, config(node, direct_bin_dir, **keys), fault_at) >= 8


@pytest.mark.parametrize(
    ("module", "name", "keys"),
    [
        (port_mappings_iptables, "restore", {"backend": "iptables"}),
        (port_mappings_iptables, "_listed", {"backend": "iptables"}),
        (port_mappings_rules, "run", CONDITIONS),
    ],
    ids=["iptables-restore", "iptables-save", "nft"],
)
def test_when_a_program_fails(
    node: Node,
    direct_bin_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    name: str,
    keys: dict[str, Any],
) -> None:
    sent = config(node, direct_bin_dir, **keys)
    before = node.filtering()
    with monkeypatch.context() as patch:
        failing_once(patch, module, name)

        assert dispatched(node, direct_bin_dir, "ADD", sent, "one").code == 1

    assert node.filtering() == before
    assert dispatched(node, direct_bin_dir, "ADD", sent, "one").code == 0


def test_del_goes_on_when_a_backend_fails(node: Node, direct_bin_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = config(node, direct_bin_dir)
    assert dispatched(node, direct_bin_dir, "ADD", sent, "one").code == 0
    failing_once(monkeypatch, port_mappings_iptables, "program_with")

    assert dispatched(node, direct_bin_dir, "DEL", sent, "one").code == 1
    assert "cni_harness_portmap" not in node.run(["nft", "list", "ruleset"]).stdout
    assert dispatched(node, direct_bin_dir, "DEL", sent, "one").code == 0
