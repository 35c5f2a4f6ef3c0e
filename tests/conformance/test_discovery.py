"""Delegates that the configuration does not name are found by their execution, and the checks of delegation apply."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine.discovery import with_delegates
from harness.conformance.finding import Finding, Outcome
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import parse_network_list
from tests.conformance.subjects import PLUGINS, run_check
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

OPTIONS = CheckOptions(timeout=HANG)
CHECKS = {check.id: check for check in all_checks()}
OF_IPAM = {"delegate-addresses-applied", "delegate-configuration", "delegate-name", "delegate-text-file-busy"}
OF_ANY = [name for name in CHECKS if name.startswith("delegate-") and name not in OF_IPAM]
OF_ANY += ["status-forwarded", "status-of-delegate-fails", "check-reservation-missing", "gc-goes-on-past-errors"]


def ipam(subnet: str) -> Mapping[str, object]:
    return {"type": "host-local", "ranges": [[{"subnet": subnet}]]}


ONE: Mapping[str, Any] = {"subnet": "10.66.0.0/27", "delegate": {"bridge": "cf0", "isGateway": True, "ipMasq": True}}
SEVERAL: Mapping[str, Any] = {
    "delegates": [
        {"type": "bridge", "bridge": "cf0", "ipam": ipam("10.66.0.0/27")},
        {"type": "ptp", "ipam": ipam("10.67.0.0/27")},
    ]
}


@pytest.fixture
def bin_dir(sound_bin_dir: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(sound_bin_dir, tmp_path / "bin"))
    shutil.copy(PLUGINS / "sound-delegating", folder)
    return folder


def subject(bin_dir: Path, keys: Mapping[str, Any]) -> Subject:
    plugin = {"type": "sound-delegating", **keys}
    network = parse_network_list(json.dumps({"cniVersion": "1.1.0", "name": "meta", "plugins": [plugin]}).encode())
    [found] = subjects_of(network, [bin_dir], profile=Profile.INTERFACE)
    return found


def finding(name: str, tested: Subject, folder: Path) -> Finding:
    return run_check(CHECKS[name], tested, state_dir=folder / "state", options=OPTIONS)


@pytest.mark.parametrize(("keys", "names"), [(ONE, ("bridge",)), (SEVERAL, ("bridge", "ptp"))])
def test_delegates_are_found_and_their_own_delegates_are_not_taken_for_them(
    keys: Mapping[str, Any], names: tuple[str, ...], bin_dir: Path, tmp_path: Path
) -> None:
    found = with_delegates(subject(bin_dir, keys), tmp_path / "state", OPTIONS)

    assert found.delegates == names


def test_a_named_delegate_needs_no_search(bin_dir: Path, tmp_path: Path) -> None:
    plugin = {"type": "bridge", "bridge": "cf0", "ipam": ipam("10.66.0.0/27")}
    network = parse_network_list(json.dumps({"cniVersion": "1.1.0", "name": "plain", "plugins": [plugin]}).encode())
    [tested] = subjects_of(network, [bin_dir], profile=Profile.INTERFACE, only=["bridge"])

    assert with_delegates(tested, tmp_path / "state", OPTIONS).delegates == ("host-local",)
    assert not (tmp_path / "state").exists()


@pytest.mark.mostly_slow(4, "each check of delegation; a part is in make test")
@pytest.mark.one_row_in(3)
@pytest.mark.parametrize("name", OF_ANY)
@pytest.mark.parametrize("keys", [ONE, SEVERAL], ids=["one", "several"])
def test_a_sound_plugin_passes(keys: Mapping[str, Any], name: str, bin_dir: Path, tmp_path: Path) -> None:
    found = with_delegates(subject(bin_dir, keys), tmp_path / "state", OPTIONS)

    made = finding(name, found, tmp_path)
    assert made.outcome is Outcome.PASS, made.detail


@pytest.mark.parametrize("name", sorted(OF_IPAM - {"delegate-text-file-busy"}))
def test_checks_of_ipam_plugins_do_not_apply_to_other_delegates(name: str, bin_dir: Path, tmp_path: Path) -> None:
    tested = replace(subject(bin_dir, ONE), executed=("bridge",))

    made = finding(name, tested, tmp_path)
    assert made.outcome is Outcome.NOT_APPLICABLE
    assert "ADD executes bridge, which is not the ipam.type" in made.detail


@pytest.mark.mostly_slow(3, "a long table; a part is in make test")
@pytest.mark.parametrize(
    ("fault", "keys", "name", "words"),
    [
        ("del-of-the-second-forgotten", SEVERAL, "delegate-del", "DEL executed on ptp"),
        ("not-undone", ONE, "delegate-undone-after-failed-add", "DEL executed on bridge"),
        ("not-undone", SEVERAL, "delegate-failed-add-leaves-nothing", "a node as it was before"),
        ("stderr-lost", ONE, "delegate-stderr", "on standard error"),
        ("variables-lost", ONE, "delegate-environment", "A_MARK"),
        ("errors-lost", SEVERAL, "delegate-del-fails", "the delegate's DEL has failed"),
        ("gc-forgotten", ONE, "delegate-gc", "GC executed on bridge"),
        ("del-without-namespace-forgotten", ONE, "delegate-del-without-netns", "DEL executed on bridge"),
    ],
)
def test_faults_are_caught(
    fault: str, keys: Mapping[str, Any], name: str, words: str, bin_dir: Path, tmp_path: Path
) -> None:
    found = with_delegates(subject(bin_dir, {**keys, "fault": fault}), tmp_path / "state", OPTIONS)

    made = finding(name, found, tmp_path)
    assert made.outcome in {Outcome.FAIL, Outcome.WARN}, made.detail
    assert words in made.detail
