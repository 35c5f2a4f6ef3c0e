"""Plugins in earlier versions of SPEC.md: no check blames them for a demand that came later."""

from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Finding, Outcome
from harness.conformance.sentences import Level
from harness.conformance.subject import Profile
from harness.conformance.threshold import FailOn, Threshold
from tests.conformance.subjects import FAULTY, SOUND, Faulty, install, run_check, subject
from tests.findings import examine
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

CHECKS = {check.id: check for check in all_checks()}
ANY_CONTAINER_ID = """#!/bin/sh
id=$(printf %s "${CNI_CONTAINERID:-none}" | tr -c 'A-Za-z0-9' 'x')
CNI_CONTAINERID=$id exec "${0%/*}/sound/${0##*/}"
"""
WEAKER = [check for check in CHECKS.values() if len(check.levels) > 1]
"""The checks whose level was raised."""


def found(
    name: str, faulty: Faulty, version: str, folders: tuple[Path, Path], fail_on: FailOn = FailOn.WORKS
) -> Finding:
    """The finding about a plugin in a version; `folders` are that of sound plugins, and one for this plugin."""
    sound, folder = folders
    tested = subject(faulty.profile, install(faulty, sound, folder / "bin"), version)
    options = CheckOptions(timeout=HANG, threshold=Threshold(fail_on))
    return run_check(CHECKS[name], tested, state_dir=folder / "state", options=options)


@pytest.mark.parametrize(
    ("name", "version", "outcome"),
    [
        ("container-id-invalid", "0.3.1", Outcome.NOT_APPLICABLE),
        ("container-id-invalid-code", "0.3.1", Outcome.NOT_APPLICABLE),
        ("variable-missing", "0.3.1", Outcome.PASS),
        ("variables-all-named", "0.3.1", Outcome.PASS),
        ("container-id-invalid", "0.4.0", Outcome.FAIL),
        ("variable-missing", "0.4.0", Outcome.FAIL),
    ],
)
def test_container_id_is_optional_in_early_versions(
    name: str, version: str, outcome: Outcome, sound_bin_dir: Path, tmp_path: Path
) -> None:
    script = tmp_path / "any-container-id"
    script.write_text(ANY_CONTAINER_ID)
    script.chmod(0o755)
    faulty = Faulty(script, "", (), Profile.IPAM, SOUND[Profile.IPAM][0])

    finding = found(name, faulty, version, (sound_bin_dir, tmp_path))

    assert finding.outcome is outcome, finding.detail


@pytest.mark.parametrize(
    ("version", "fail_on", "level", "outcome"),
    [
        ("0.3.1", FailOn.MUST, Level.SHOULD, Outcome.WARN),
        ("0.3.1", FailOn.WORKS, Level.SHOULD, Outcome.FAIL),
        ("1.0.0", FailOn.MUST, Level.MUST, Outcome.FAIL),
    ],
)
def test_second_del_was_a_should(
    version: str, fail_on: FailOn, level: Level, outcome: Outcome, sound_bin_dir: Path, tmp_path: Path
) -> None:
    faulty = Faulty.read(FAULTY / "del-of-what-it-knows")

    finding = found("del-twice", faulty, version, (sound_bin_dir, tmp_path), fail_on)

    assert (finding.check.level, finding.outcome) == (level, outcome)


def test_error_had_the_version_that_the_plugin_uses(sound_bin_dir: Path, tmp_path: Path) -> None:
    faulty = Faulty.read(FAULTY / "error-of-another-version")

    finding = found("error-cni-version", faulty, "0.3.1", (sound_bin_dir, tmp_path))

    assert finding.outcome is Outcome.PASS, finding.detail


@pytest.mark.one_row_in(2)
@pytest.mark.mostly_slow(6, "each version and profile; a part is in make test")
@pytest.mark.parametrize(
    ("version", "profile"),
    [
        (version, profile)
        for version in ("0.1.0", "0.2.0", "0.3.1", "0.4.0")
        for profile in Profile
        if profile is not Profile.CHAINED or version >= "0.3"  # which brought chains
    ],
)
def test_sound_plugin_passes_checks_that_were_weaker(
    version: str, profile: Profile, sound_bin_dir: Path, tmp_path: Path
) -> None:
    tested = subject(profile, sound_bin_dir, version)

    findings = examine(tested, WEAKER, state_dir=tmp_path, options=CheckOptions(timeout=HANG), jobs=2)

    blamed = {
        each.check.id: each.detail for each in findings if each.outcome not in {Outcome.PASS, Outcome.NOT_APPLICABLE}
    }
    assert blamed == {}
