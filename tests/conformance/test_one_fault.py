"""A plugin with one fault has few findings, and the first of them is that fault."""

from pathlib import Path
from typing import Final

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Outcome
from tests.conformance.subjects import Faulty, faulty_plugins, install, subject
from tests.findings import examine
from tests.nodes import HANG

MOST: Final = 3
"""Findings about one fault."""
MANY: Final = {"delegate-overruled", "utf-16"}
"""Their results are wrong for each check that reads them: these have more findings, of which no cause is known yet."""


@pytest.mark.sudo
@pytest.mark.slow("the whole suite for each of them")
@pytest.mark.one_row_in(250)
@pytest.mark.time_limit(900, "some 200 checks, beside other tests")
@pytest.mark.parametrize(
    "faulty", [each for each in faulty_plugins() if each.path.name not in MANY], ids=lambda faulty: faulty.path.name
)
def test_one_fault_has_few_findings_and_its_own_first(faulty: Faulty, sound_bin_dir: Path, tmp_path: Path) -> None:
    spoiled = subject(faulty.profile, install(faulty, sound_bin_dir, tmp_path / "bin"), plugin=faulty.plugin)
    options = CheckOptions(timeout=6.0 if faulty.hangs else HANG, kills=5)

    findings = examine(spoiled, all_checks(), state_dir=tmp_path / "state", options=options)

    failed = [each.check.id for each in findings if each.outcome in {Outcome.FAIL, Outcome.WARN}]
    assert failed[0] in faulty.caught_by, failed
    assert len(failed) <= MOST, failed
