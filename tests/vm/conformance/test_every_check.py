"""Every check of the suite, and ADDs that are killed: the plugins whose links small kernels lack.

A check takes four seconds of an emulated processor, so `make test-vm` runs all of them only when asked to.
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

KILLS = 24
WIDE = "10.66.0.0/16"


@pytest.mark.parametrize(
    ("plugin", "check"),
    [
        pytest.param(plugin, check, id=f"{plugin}-{check.id}")
        for plugin, profile in PROFILES.items()
        for check in all_checks()
        if profile in check.profiles
    ],
)
def test_conformance(plugin: str, check: Check, served_bin_dir: Path, tmp_path: Path) -> None:
    options = with_uplink(tmp_path, kills=4)

    finding = run_check(check, subject(plugin, served_bin_dir), state_dir=tmp_path / "state", options=options)

    assert finding.outcome is not Outcome.NOT_EXAMINED, finding.detail
    if finding.outcome is Outcome.NOT_APPLICABLE:
        pytest.skip(finding.detail)
    assert finding.outcome is Outcome.PASS, finding.detail


# A second container, which stays while the first one's ADD is killed, could not have the VLAN.
@pytest.mark.parametrize("plugin", [plugin for plugin in PROFILES if plugin != "vlan"])
def test_killed_adds_leave_nothing(plugin: str, node: Node, served_bin_dir: Path, tmp_path: Path) -> None:
    require_kind(plugin, node)
    options = with_uplink(tmp_path, kills=KILLS)

    chaos = kill_adds(subject(plugin, served_bin_dir, WIDE), state_dir=tmp_path, options=options)

    assert len(chaos.kills) >= KILLS * 0.9
    assert chaos.leaks == []
