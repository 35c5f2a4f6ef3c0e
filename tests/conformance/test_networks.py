"""The network lists that Debian's plugins are examined with: each plugin of them works, and is taken for what it is."""

from pathlib import Path

import pytest

from harness.conformance.catalogue import Profile, checks
from harness.conformance.run import Extent, run_check, with_profile
from harness.conformance.subject import Subject, subjects_of
from harness.conformance.verdict import Outcome
from harness.networks import read_network_file

DEBIAN = Path("/usr/lib/cni")
PROFILES = {
    "bandwidth": Profile.CHAINED,
    "bridge": Profile.INTERFACE,
    "firewall": Profile.CHAINED,
    "host-local": Profile.IPAM,
    "loopback": Profile.CHAINED,
    "portmap": Profile.CHAINED,
    "ptp": Profile.INTERFACE,
    "sbr": Profile.CHAINED,
    "static": Profile.IPAM,
    "tuning": Profile.CHAINED,
}
[ADD_PRINTS_RESULT] = [check for check in checks() if check.id == "add-prints-result"]
SUBJECTS = [
    pytest.param(subject, id=f"{path.stem}:{subject.type}")
    for path in sorted(Path(__file__).parent.glob("networks/*.conflist"))
    for subject in subjects_of(read_network_file(path), [DEBIAN])
]


def test_each_of_the_plugins_is_in_a_list() -> None:
    types = {subject.type for [subject] in (param.values for param in SUBJECTS) if isinstance(subject, Subject)}

    assert types == set(PROFILES)


@pytest.mark.sudo
@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_plugin_of_debian_works_in_its_list(subject: Subject, tmp_path: Path) -> None:
    found = with_profile(subject, tmp_path, Extent())

    assert found.profile is PROFILES[subject.type]
    assert found.ifname == ("lo" if subject.type == "loopback" else "eth0")
    finding = run_check(ADD_PRINTS_RESULT, found, state_dir=tmp_path, extent=Extent())
    assert finding.outcome is Outcome.PASS, finding.detail
