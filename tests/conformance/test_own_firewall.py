"""firewall behind bridge: the checks of its own verbs, and ADDs that are killed at any point."""

import json
from pathlib import Path

import pytest

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine.chaos import kill_adds
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.conformance.subjects import run_check
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

KILLS = 20
NETWORK = {
    "cniVersion": "1.1.0",
    "name": "own",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cf0",
            "isDefaultGateway": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.66.0.0/24"}], [{"subnet": "2001:db8::/64"}]]},
        },
        {"type": "firewall", "ingressPolicy": "isolated"},
    ],
}
OWN = {
    "add-bad-prev-result-leaves-nothing",
    "add-late-failure-leaves-nothing",
    "check-after-add",
    "check-later-address",
    "check-rule-missing",
    "del-leaves-other-containers",
    "del-nothing-known",
    "del-undoes-add",
    "del-without-prev-result-leaves-nothing",
    "gc-keeps-other-network",
    "gc-removes-stale",
    "nerdctl-about",
    "nerdctl-del-before-add",
    "parallel-add-and-delete",
    "podman-prev-result",
    "prev-result-ips",
    "status-ready",
}
"""The checks that a firewall can fail. The others are about `skel`, and run on bridge."""


def subject(bin_dir: Path) -> Subject:
    (found,) = subjects_of(parse_network_list(json.dumps(NETWORK).encode()), [bin_dir], only=["firewall"])
    assert found.profile is Profile.CHAINED
    return found


@pytest.mark.mostly_slow(12, "the suite again; test_faulty runs it on sound plugins in make test")
@pytest.mark.parametrize(
    "check",
    [check for check in all_checks() if Profile.CHAINED in check.profiles and check.id in OWN],
    ids=lambda check: check.id,
)
def test_conformance(check: Check, bin_dir: Path, tmp_path: Path) -> None:
    options = CheckOptions(timeout=HANG, kills=KILLS, killers=2)

    finding = run_check(check, subject(bin_dir), state_dir=tmp_path / "state", options=options)

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail


def test_all_checks_are_there() -> None:
    assert {check.id for check in all_checks()} >= OWN


@pytest.mark.slow("kills at many points; test_pods_crash kills an add in make test")
def test_killed_adds_leave_nothing(direct_bin_dir: Path, tmp_path: Path) -> None:
    chaos = kill_adds(
        subject(direct_bin_dir), state_dir=tmp_path, options=CheckOptions(timeout=HANG, kills=KILLS, killers=2)
    )

    assert len(chaos.kills) >= KILLS * 0.9
    assert chaos.leaks == []
