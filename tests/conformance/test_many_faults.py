"""No fault hides another: a plugin with nine faults at once gets a finding of its own for each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Outcome
from tests.conformance.subjects import Faulty, install, subject
from tests.findings import examine
from tests.nodes import HANG

PLUGIN: Final = Path(__file__).with_name("nine-faults")
SAID: Final[Mapping[str, str]] = {
    "add-interface-index": '"interface": 1, which is veth',
    "add-prefix-length": "/27 among the ips",
    "add-tells-routes": "a route to 203.0.113.0/24 via 10.66.0.1 among the routes",
    "add-gateway-on-link": "got 192.0.2.1",
    "add-own-mac": "02:00:00:00:00:01 for both",
    "version-unsupported": "version 99.0.0 of the specification is not supported",
    "container-id-invalid": "is no container ID",
    "del-netns-gone": "the namespace is gone",
    "check-everything-missing": "success (exit code 0)",
}
"""Words of each finding that no other fault explains."""


@pytest.mark.sudo
def test_nine_faults_have_nine_findings(sound_bin_dir: Path, tmp_path: Path) -> None:
    faulty = Faulty.read(PLUGIN)
    spoiled = subject(faulty.profile, install(faulty, sound_bin_dir, tmp_path / "bin"))
    wanted = [check for check in all_checks() if check.id in faulty.caught_by]

    findings = examine(spoiled, wanted, state_dir=tmp_path / "state", options=CheckOptions(timeout=HANG))

    found = {each.check.id: each for each in findings}
    assert {*SAID} == {*found} == {*faulty.caught_by}
    assert dict.fromkeys(SAID, Outcome.FAIL) == {name: each.outcome for name, each in found.items()}
    assert [(name, found[name].detail) for name, words in SAID.items() if words not in found[name].detail] == []
