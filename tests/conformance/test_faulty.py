"""Each check is worth as much as the fault that it catches: a family of plugins, each with one fault of its own.

A file in `faulty/` is installed under the name of the sound plugin of its profile, which it finds in the folder
`sound/` beside it and executes, spoiling its input, its output or the state of the node.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.conformance.catalogue import Check
from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Finding, Outcome
from harness.conformance.sentences import Level
from harness.conformance.subject import Profile
from harness.conformance.threshold import without_effect
from launch import PLUGINS
from tests.conformance.subjects import SOUND, Faulty, faulty_plugins, install, run_check, subject
from tests.nodes import HANG, with_enough_time

CHECKS: Mapping[str, Check] = {check.id: check for check in all_checks()}
FAMILY = faulty_plugins()
KILLS = 5
OPTIONS = CheckOptions(timeout=HANG, kills=KILLS)
CATCHES = [
    pytest.param(faulty, name, id=f"{faulty.path.name}:{name}") for faulty in FAMILY for name in faulty.caught_by
]
PASSES = [
    pytest.param(check.id, profile, plugin, id=f"{plugin}:{check.id}")
    for check in all_checks()
    for profile in sorted(check.profiles)
    for plugin in SOUND[profile]
    # Another sound plugin of a profile is there for the faults of its own.
    if plugin == SOUND[profile][0] or any(check.id in each.caught_by for each in FAMILY if each.plugin == plugin)
]


@pytest.mark.mostly_slow(16, "a table of about 450 findings; single ones are in make test")
@pytest.mark.sudo
@pytest.mark.parametrize(("faulty", "name"), CATCHES)
def test_a_faulty_plugin_is_caught(faulty: Faulty, name: str, sound_bin_dir: Path, tmp_path: Path) -> None:
    check = CHECKS[name]
    spoiled = subject(faulty.profile, install(faulty, sound_bin_dir, tmp_path / "bin"), plugin=faulty.plugin)

    def find(timeout: float) -> Finding | None:
        found = run_check(
            check, spoiled, state_dir=tmp_path / "state", options=CheckOptions(timeout=timeout, kills=KILLS)
        )
        return found if not faulty.hangs or faulty.says in found.detail else None

    finding = with_enough_time(find, first=6.0 if faulty.hangs else HANG)

    counts = check.level is Level.MUST or check.effect is not None
    assert finding.outcome is (Outcome.FAIL if counts else Outcome.WARN), finding.detail
    assert finding.expected in finding.detail
    assert finding.got in finding.detail
    assert faulty.says in finding.detail


@pytest.mark.mostly_slow(16, "a table of about 350 checks; make matrix runs all for our plugins")
@pytest.mark.one_row_in(2)
@pytest.mark.sudo
@pytest.mark.parametrize(("name", "profile", "plugin"), PASSES)
def test_sound_plugin_passes_each_check(
    name: str, profile: Profile, plugin: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    # tests/node/test_server_worn.py examines ours with a server.
    bin_dir: Path = request.getfixturevalue("direct_sound_bin_dir" if plugin in PLUGINS else "sound_bin_dir")
    sound = subject(profile, bin_dir, plugin=plugin)

    finding = run_check(CHECKS[name], sound, state_dir=tmp_path / "state", options=OPTIONS)

    # Where a fault is caught, the check must have been able to see that there is none.
    catches = any(name in faulty.caught_by and plugin == faulty.plugin for faulty in FAMILY)
    allowed = {Outcome.PASS} if catches else {Outcome.PASS, Outcome.NOT_APPLICABLE}
    assert finding.outcome in allowed, finding.detail


def test_a_faulty_plugin_fails_by_default_unless_nothing_notices_its_fault() -> None:
    green = {faulty.path.name for faulty in FAMILY if all(name in without_effect() for name in faulty.caught_by)}
    by_its_letter = {name for name in without_effect() if CHECKS[name].level is Level.MUST}

    assert green - {each.path.name for each in FAMILY if by_its_letter & {*each.caught_by}} == {
        "about-itself-freely",  # people read the line
        "busy-is-broken",  # the runtime tries again
        "check-before-its-version",  # runtimes do not send a verb to such a version
        "error-code-as-exit-code",  # runtimes tell 0 from all others
        "error-code-made-up",  # runtimes show the code
        "error-of-another-version",  # runtimes read an error of any version
        "error-without-version",
        "fails-by-hand",  # no runtime executes it without a verb
        "gc-tells-what-it-did",  # runtimes do not read it
        "mute-by-hand",
        "own-namespace-too",  # runtimes give each pod a namespace of its own
        "remarks-on-stdout",  # runtimes do not read them
        "status-always-ready-for-addresses",  # the specification leaves it to the plugin
        "status-before-its-version",
        "variables-one-at-a-time",  # people read the error
    }


def test_every_check_catches_a_fault() -> None:
    assert set(CHECKS) == {name for faulty in FAMILY for name in faulty.caught_by}


@pytest.mark.parametrize("faulty", FAMILY, ids=lambda faulty: faulty.path.name)
def test_a_fault_is_of_a_profile_that_its_checks_are_for(faulty: Faulty) -> None:
    assert all(faulty.profile in CHECKS[name].profiles for name in faulty.caught_by)


def test_no_two_plugins_have_the_same_fault() -> None:
    assert len({faulty.fault for faulty in FAMILY}) == len(FAMILY)
