"""Of two independent faults in one plugin, both are found: one wraps the other, which wraps the sound plugin."""

import random
import shutil
from itertools import combinations
from pathlib import Path
from typing import Final

import pytest

from harness.conformance.catalogue import checks
from harness.conformance.check_options import CheckOptions
from harness.conformance.finding import Outcome
from harness.conformance.run import examine
from tests.conformance.subjects import Faulty, faulty_plugins, install, subject
from tests.nodes import HANG

CHECKS = {check.id: check for check in checks()}
PAIRS: Final = 20


def pairs() -> list[tuple[Faulty, Faulty]]:
    """Faults in different verbs of one plugin: none of the checks of one has a finding of the other as its cause."""
    # A result that nobody can read hides everything that is in it, and a verb that is refused everything that it does.
    hiding = {"add-prints-result", "verbs-of-its-versions"}
    family = [each for each in faulty_plugins() if not each.hangs and not hiding & {*each.caught_by}]
    of_one = [
        (first, second)
        for first, second in combinations(family, 2)
        if first.plugin == second.plugin and not _kinds(first) & _kinds(second)
    ]
    return random.Random(25).sample(of_one, PAIRS)  # noqa: S311 -- no secret


def _kinds(faulty: Faulty) -> set[str]:
    return {name.partition("-")[0] for name in faulty.caught_by}


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
@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: f"{pair[0].path.name}+{pair[1].path.name}")
def test_both_faults_of_a_plugin_are_found(pair: tuple[Faulty, Faulty], sound_bin_dir: Path, tmp_path: Path) -> None:
    outer, inner = pair
    spoiled = subject(outer.profile, install_both(outer, inner, sound_bin_dir, tmp_path), plugin=outer.plugin)
    wanted = [CHECKS[name] for name in dict.fromkeys((*outer.caught_by, *inner.caught_by))]
    options = CheckOptions(timeout=HANG, kills=5)

    findings = examine(spoiled, wanted, state_dir=tmp_path / "state", options=options)

    failed = {each.check.id for each in findings if each.outcome in {Outcome.FAIL, Outcome.WARN}}
    assert failed & {*outer.caught_by}, failed
    assert failed & {*inner.caught_by}, failed
