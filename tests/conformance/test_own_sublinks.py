"""ipvlan, vlan, dummy and vrf: those of the suite's checks that concern their links, where the kernel has these.

All checks run by `make test-vm VM_ARGS="--machine conformance"`.
"""

from pathlib import Path

import pytest

from harness.conformance.catalogue import Check
from harness.conformance.checks import all_checks
from harness.conformance.engine.chaos import kill_adds
from harness.conformance.finding import Outcome
from tests.conformance.full_kernel import PROFILES, require_kind, subject
from tests.conformance.own import with_uplink
from tests.conformance.subjects import run_check
from tests.nodes import Node

pytestmark = pytest.mark.sudo

OF_EACH_MODE = {"add-makes-interface", "del-undoes-add"}
OF_EACH_PLUGIN = OF_EACH_MODE | {"add-late-failure-leaves-nothing", "gc-removes-stale", "check-interface-down"}
OF_ONE_PLUGIN = OF_EACH_PLUGIN | {
    *("add-existing-interface", "delegate-failed-add-leaves-nothing", "podman-fixed-address", "check-address-missing"),
    *("del-netns-empty", "del-interface-gone-leaves-nothing", "check-interface-other-mac"),
}
SAMPLES = {"ipvlan-l2": OF_ONE_PLUGIN, "ipvlan-l3": OF_EACH_MODE, "ipvlan-l3s": {"del-undoes-add"}}
KILLS = 4
WIDE = "10.66.0.0/16"


@pytest.mark.parametrize(
    ("plugin", "check"),
    [
        pytest.param(plugin, check, id=f"{plugin}-{check.id}")
        for plugin, profile in PROFILES.items()
        for check in all_checks()
        if profile in check.profiles and check.id in SAMPLES.get(plugin, OF_EACH_PLUGIN)
    ],
)
def test_conformance(plugin: str, check: Check, node: Node, served_bin_dir: Path, tmp_path: Path) -> None:
    require_kind(plugin, node)
    options = with_uplink(tmp_path, kills=KILLS)

    finding = run_check(check, subject(plugin, served_bin_dir), state_dir=tmp_path / "state", options=options)

    assert finding.outcome is not Outcome.NOT_EXAMINED, finding.detail
    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail


@pytest.mark.parametrize("plugin", ["ipvlan-l2", "vrf"])
def test_killed_adds_leave_nothing(plugin: str, node: Node, served_bin_dir: Path, tmp_path: Path) -> None:
    require_kind(plugin, node)
    options = with_uplink(tmp_path, kills=KILLS)

    chaos = kill_adds(subject(plugin, served_bin_dir, WIDE), state_dir=tmp_path, options=options)

    assert len(chaos.kills) >= KILLS * 0.8
    assert chaos.leaks == []
