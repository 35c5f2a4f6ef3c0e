"""The checks that put the executables elsewhere: what else is on CNI_PATH is no matter."""

from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile, subjects_of
from tests.conformance.subjects import network, run_check

pytestmark = pytest.mark.sudo

[EXECUTABLE_REPLACED] = [check for check in all_checks() if check.id == "executable-replaced"]


def test_a_folder_that_is_not_there_is_passed_over(direct_bin_dir: Path, tmp_path: Path) -> None:
    bin_dirs = [tmp_path / "none", direct_bin_dir]
    [bridge] = subjects_of(network(Profile.INTERFACE), bin_dirs, profile=Profile.INTERFACE, only=["bridge"])

    finding = run_check(EXECUTABLE_REPLACED, bridge, state_dir=tmp_path, options=CheckOptions())

    assert finding.outcome is Outcome.PASS, finding.detail
