"""portmap: the suite for chained plugins, and ADDs that are killed at any point."""

import json
from pathlib import Path

import pytest

from harness.conformance.catalogue import Check, checks
from harness.conformance.chaos import wreak
from harness.conformance.finding import Outcome
from harness.conformance.profile import Profile
from harness.conformance.run import Extent, run_check
from harness.conformance.subject import Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

KILLS = 12
IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.66.0.0/16"}]]}
BRIDGE = {"type": "bridge", "bridge": "cf0", "isDefaultGateway": True, "ipam": IPAM}
PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}


def subject(bin_dir: Path) -> Subject:
    text = json.dumps({"cniVersion": "1.1.0", "name": "own", "plugins": [BRIDGE, PORTMAP]})
    (found,) = subjects_of(parse_network_list(text.encode()), [bin_dir], profile=None, only=["portmap"])
    return found


@pytest.mark.parametrize(
    "check", [check for check in checks() if Profile.CHAINED in check.profiles], ids=lambda check: check.id
)
def test_conformance(check: Check, direct_bin_dir: Path, tmp_path: Path) -> None:
    extent = Extent(timeout=HANG, kills=KILLS, killers=2)

    finding = run_check(check, subject(direct_bin_dir), state_dir=tmp_path / "state", extent=extent)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail


def test_nothing_is_left_of_a_killed_add(direct_bin_dir: Path, tmp_path: Path) -> None:
    extent = Extent(timeout=HANG, kills=KILLS, killers=2)

    chaos = wreak(subject(direct_bin_dir), state_dir=tmp_path, extent=extent)

    assert chaos.leaks == []
