"""The network lists that the plugins are compared with: each plugin of them works, and has its own kind."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine.discovery import in_common_version, with_profile
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile, Subject, subjects_of
from harness.libcni.networks import read_network_file
from tests.conformance.subjects import run_check

DEBIAN = Path("/usr/lib/cni")
PROFILES = {
    "bandwidth": Profile.CHAINED,
    "bridge": Profile.INTERFACE,
    "firewall": Profile.CHAINED,
    "host-device": Profile.INTERFACE,
    "host-local": Profile.IPAM,
    "loopback": Profile.CHAINED,
    "macvlan": Profile.INTERFACE,
    "portmap": Profile.CHAINED,
    "ptp": Profile.INTERFACE,
    "sbr": Profile.CHAINED,
    "static": Profile.IPAM,
    "tuning": Profile.CHAINED,
}
OURS = {"tap": Profile.INTERFACE, "noop": Profile.CHAINED}
"""Plugins that Debian's release of the reference plugins lacks."""
PREPARED = CheckOptions(preparation=Path(__file__).parent / "uplink.sh")
[ADD_PRINTS_RESULT] = [check for check in all_checks() if check.id == "add-prints-result"]
SUBJECTS = [
    subject
    for path in sorted(Path(__file__).parent.glob("networks/*.conflist"))
    for subject in subjects_of(read_network_file(path), [DEBIAN])
]


def named(type: str) -> Subject:
    return next(subject for subject in SUBJECTS if subject.type == type)


def test_each_of_the_plugins_is_in_a_list() -> None:
    assert {subject.type for subject in SUBJECTS} == {*PROFILES, *OURS}


@pytest.mark.mostly_slow(4, "each list; a part is in make test")
@pytest.mark.sudo
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: f"{subject.network.name}:{subject.type}")
def test_a_plugin_works_in_its_list(subject: Subject, direct_bin_dir: Path, tmp_path: Path) -> None:
    is_ours = subject.network.plugins[0].type in OURS
    tested = replace(subject, bin_dirs=(direct_bin_dir,)) if is_ours else subject

    found = with_profile(in_common_version(tested, tmp_path, CheckOptions(20.0)), tmp_path, PREPARED)

    assert found.network.cni_version == ("1.1.0" if is_ours else "1.0.0")
    assert found.profile is (PROFILES | OURS)[subject.type]
    assert found.ifname == ("lo" if subject.type == "loopback" else "eth0")
    finding = run_check(ADD_PRINTS_RESULT, found, state_dir=tmp_path, options=PREPARED)
    assert finding.outcome is Outcome.PASS, finding.detail


@pytest.mark.sudo
@pytest.mark.parametrize("type", ["bridge", "host-local", "loopback"])
def test_a_plugin_is_examined_in_the_highest_version_that_it_speaks(
    type: str, direct_bin_dir: Path, tmp_path: Path
) -> None:
    subject = named(type)

    found = in_common_version(replace(subject, bin_dirs=(direct_bin_dir,)), tmp_path, CheckOptions(20.0))
    assert found.network.cni_version == "1.1.0"

    # Its delegate has to speak it too.
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    (mixed / "bridge").symlink_to(direct_bin_dir / "bridge")
    (mixed / "host-local").symlink_to(DEBIAN / "host-local")
    (mixed / "loopback").symlink_to(direct_bin_dir / "loopback")
    found = in_common_version(replace(subject, bin_dirs=(mixed,)), tmp_path, CheckOptions(20.0))
    assert found.network.cni_version == ("1.1.0" if type == "loopback" else "1.0.0")


@pytest.mark.sudo
def test_plugin_without_version_answer_is_examined_in_the_highest_version(tmp_path: Path) -> None:
    (tmp_path / "loopback").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "loopback").chmod(0o755)

    found = in_common_version(replace(named("loopback"), bin_dirs=(tmp_path,)), tmp_path, CheckOptions(20.0))

    assert found.network.cni_version == "1.1.0"
