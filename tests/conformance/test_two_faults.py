"""Of two independent faults in one plugin, both are found: one wraps the other, which wraps the sound plugin."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Outcome
from tests.conformance.subjects import Faulty, faulty_plugins, install, subject
from tests.findings import examine
from tests.nodes import HANG

CHECKS = {check.id: check for check in all_checks()}
PAIRS: Final = (
    ("del-wants-the-bridge", "delegate-believed"),
    ("name-of-its-own", "version-without-list"),
    ("stdin-of-delete-unread", "version-one-at-a-time"),
    ("stdin-of-delete-unread", "version-in-words"),
    ("address-not-ready", "prev-result-in-one-case"),
    ("check-wants-no-other-route", "forward-policy-accept"),
    ("del-of-recorded-tables-alone", "mtu-as-it-was"),
    ("gc-says-all-is-well", "version-in-name-only"),
    ("delete-gives-way", "dns-in-part"),
    ("busy-is-broken", "error-on-stderr"),
    ("keys-overlooked", "sandbox-of-the-host"),
    ("container-id-of-any-kind", "error-in-words"),
    ("alone-or-not-at-all", "prev-result-in-one-case"),
    ("del-of-recorded-tables-alone", "version-refused-too-late"),
    ("forward-chain-that-drops", "status-with-another-code"),
    ("delegate-by-path", "unsupported-field-without-value"),
    ("check-blind-for-routes", "resolver-of-the-node"),
    ("gateway-of-another-network", "status-never-ready-again"),
    ("check-blind-for-the-firewall", "version-without-list"),
    ("gateway-is-not-that-of-routes", "stdin-cut-off-is-empty"),
)
"""Outer and inner fault, drawn by chance among those of different verbs. Neither makes a result unreadable."""
FAMILY = {faulty.path.name: faulty for faulty in faulty_plugins()}


def install_both(outer: Faulty, inner: Faulty, sound: Path, folder: Path) -> Path:
    """Return a folder for CNI_PATH with a plugin that has both faults."""
    spoiled = install(inner, sound, folder / "inner")
    bin_dir = folder / "bin"
    shutil.copytree(sound, bin_dir)
    shutil.copytree(spoiled, bin_dir / "sound")
    shutil.copy(outer.path, bin_dir / outer.plugin)
    return bin_dir


@pytest.mark.sudo
@pytest.mark.mostly_slow(10, "each pair; a part is in make test")
@pytest.mark.one_row_in(6)
@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_both_faults_of_a_plugin_are_found(pair: tuple[str, str], sound_bin_dir: Path, tmp_path: Path) -> None:
    outer, inner = (FAMILY[name] for name in pair)
    spoiled = subject(outer.profile, install_both(outer, inner, sound_bin_dir, tmp_path), plugin=outer.plugin)
    wanted = [CHECKS[name] for name in dict.fromkeys((*outer.caught_by, *inner.caught_by))]
    options = CheckOptions(timeout=HANG, kills=5)

    findings = examine(spoiled, wanted, state_dir=tmp_path / "state", options=options)

    failed = {each.check.id for each in findings if each.outcome in {Outcome.FAIL, Outcome.WARN}}
    assert failed & {*outer.caught_by}, failed
    assert failed & {*inner.caught_by}, failed
