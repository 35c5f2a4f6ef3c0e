"""Unusual behaviour is no fault: plugins that do as demanded in their own way, or stand behind one that does not.

A file in `unusual/` is installed as those in `faulty/` are. No check may find a violation where it is one of a plugin
before, or takes more than the network has.
"""

from pathlib import Path

import pytest

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Finding, Outcome
from tests.conformance.subjects import Unusual, install, run_check, subject, unusual_plugins
from tests.nodes import HANG

CHECKS = {check.id: check for check in all_checks()}
FAMILY = unusual_plugins()
PASSES = [pytest.param(each, name, id=f"{each.path.name}:{name}") for each in FAMILY for name in each.passes]
NOT_FOR = [pytest.param(each, name, id=f"{each.path.name}:{name}") for each in FAMILY for name in each.does_not_apply]


def found(check: Check, unusual: Unusual, sound: Path, folder: Path) -> Finding:
    tested = subject(unusual.profile, install(unusual, sound, folder / "bin"))
    options = CheckOptions(timeout=HANG, preparation=preparation(unusual, folder))
    return run_check(check, tested, state_dir=folder / "state", options=options)


def preparation(unusual: Unusual, folder: Path) -> Path | None:
    if not unusual.prepared_by:
        return None
    program = folder / "prepare.sh"
    program.write_text(f"#!/bin/sh -e\n{unusual.prepared_by}\n")
    program.chmod(0o755)
    return program


@pytest.mark.time_limit(600, "a plugin that waits in each call")
@pytest.mark.one_row_in(3)  # of each plugin there are some left
@pytest.mark.mostly_slow(8, "the suite on further sound plugins; test_faulty runs it on sound ones in make test")
@pytest.mark.sudo
@pytest.mark.parametrize(("unusual", "name"), PASSES)
def test_an_unusual_plugin_passes(unusual: Unusual, name: str, sound_bin_dir: Path, tmp_path: Path) -> None:
    finding = found(CHECKS[name], unusual, sound_bin_dir, tmp_path)

    assert finding.outcome is Outcome.PASS, finding.detail


@pytest.mark.mostly_slow(8, "each check; a part is in make test")
@pytest.mark.sudo
@pytest.mark.parametrize(("unusual", "name"), NOT_FOR)
def test_a_check_does_not_apply(unusual: Unusual, name: str, sound_bin_dir: Path, tmp_path: Path) -> None:
    finding = found(CHECKS[name], unusual, sound_bin_dir, tmp_path)

    assert finding.outcome is Outcome.NOT_APPLICABLE, finding.detail
    assert unusual.because in finding.detail


@pytest.mark.parametrize("unusual", FAMILY, ids=lambda unusual: unusual.path.name)
def test_each_unusual_plugin_lists_existing_checks(unusual: Unusual) -> None:
    names = {*unusual.passes, *unusual.does_not_apply}

    assert names
    assert names <= CHECKS.keys()
    assert all(unusual.profile in CHECKS[name].profiles for name in names)
    assert bool(unusual.because) == bool(unusual.does_not_apply)
