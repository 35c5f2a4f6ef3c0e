"""noop, alone and behind a bridge: the checks of the protocol and of GC. It changes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.conformance.subjects import run_check
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.66.0.0/27"}]]}
LISTS: dict[str, list[dict[str, Any]]] = {
    "alone": [{"type": "noop"}],
    "chained": [{"type": "bridge", "bridge": "br0", "ipam": IPAM}, {"type": "noop"}],
}
CHECKS = {
    *("add-keeps-node", "add-prints-result", "add-repeats-cni-version", "check-after-add", "check-changes-nothing"),
    *("container-id-invalid-code", "crio-check-after-every-add", "crio-gc-of-nothing", "del-netns-gone", "del-twice"),
    *("del-undoes-add", "gc-keeps-every-interface", "gc-keeps-valid", "gc-of-nothing", "podman-prev-result"),
    *("prev-result-interfaces", "prev-result-ips", "status-ready", "version-names-version-in-use", "version-result"),
    *("version-unsupported-code",),
}


def subject(name: str, bin_dir: Path) -> Subject:
    text = json.dumps({"cniVersion": "1.1.0", "name": "own", "plugins": LISTS[name]})
    [found] = subjects_of(parse_network_list(text.encode()), [bin_dir], profile=Profile.CHAINED, only=["noop"])
    return found


@pytest.mark.mostly_slow(6, "the suite again; test_faulty runs it on sound plugins in make test")
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("check", [check for check in all_checks() if check.id in CHECKS], ids=lambda check: check.id)
def test_conformance(check: Check, name: str, bin_dir: Path, tmp_path: Path) -> None:
    finding = run_check(check, subject(name, bin_dir), state_dir=tmp_path / "state", options=CheckOptions(timeout=HANG))

    assert finding.outcome in {Outcome.PASS, Outcome.NOT_APPLICABLE}, finding.detail


def test_all_checks_are_for_chained_plugins() -> None:
    assert {check.id for check in all_checks() if Profile.CHAINED in check.profiles} >= CHECKS
