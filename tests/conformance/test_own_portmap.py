"""portmap: the checks of the suite that concern ports, left rules and ADDs that are killed at any point."""

import json
from pathlib import Path

import pytest

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Outcome
from harness.conformance.subject import Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.conformance.subjects import run_check
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

KILLS = 6
CHECKS = {
    "add-bad-prev-result-leaves-nothing",
    "add-late-failure-leaves-nothing",
    "capability-malformed",
    "capability-port-mappings",
    "check-after-add",
    "check-rule-missing",
    "containerd-go-field-names",
    "containerd-host-ip",
    "crio-check-after-every-add",
    "crio-gc-at-start",
    "del-corrupt-prev-result",
    "del-netns-gone",
    "del-nothing-known",
    "del-twice",
    "del-undoes-add",
    "del-without-prev-result-leaves-nothing",
    "gc-keeps-valid",
    "gc-removes-stale",
    "killed-add",
    "null-in-prev-result",
    "parallel-add-and-delete",
    "podman-prev-result",
    "status-ready",
}
"""All others pass, too; most of those examine `skel`, as other plugins' tests do."""
IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.66.0.0/16"}]]}
BRIDGE = {"type": "bridge", "bridge": "cf0", "isDefaultGateway": True, "ipam": IPAM}
PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}


def subject(bin_dir: Path) -> Subject:
    text = json.dumps({"cniVersion": "1.1.0", "name": "own", "plugins": [BRIDGE, PORTMAP]})
    (found,) = subjects_of(parse_network_list(text.encode()), [bin_dir], profile=None, only=["portmap"])
    return found


@pytest.mark.mostly_slow(12, "the suite again; test_faulty runs it on sound plugins in make test")
@pytest.mark.parametrize("check", [check for check in all_checks() if check.id in CHECKS], ids=lambda check: check.id)
def test_conformance(check: Check, bin_dir: Path, tmp_path: Path) -> None:
    options = CheckOptions(timeout=HANG, kills=KILLS, killers=2)

    finding = run_check(check, subject(bin_dir), state_dir=tmp_path / "state", options=options)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail
