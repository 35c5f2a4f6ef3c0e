"""Processes that plugins start: which are a leak, and that all of them end with the check."""

from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Outcome
from harness.conformance.subject import Profile
from tests.conformance.subjects import faulty_plugins, install, run_check, subject
from tests.launchers import is_running

pytestmark = pytest.mark.sudo

[LEAVES_NO_PROCESS] = [check for check in all_checks() if check.id == "del-leaves-no-process"]
[LEFT_BEHIND] = [faulty for faulty in faulty_plugins() if faulty.path.name == "process-left-behind"]
WITH_PROCESSES = """#!/bin/sh
here="${0%/*}"
process() { setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $! >"$here/$1"; }
end() { kill "$(cat "$here/$1")" 2>/dev/null; }
case $CNI_COMMAND in
ADD) ON_ADD ;;
DEL) ON_DEL ;;
esac
exec "$here/sound/${0##*/}"
"""


def test_leftover_processes_of_a_plugin_end_with_the_check(sound_bin_dir: Path, tmp_path: Path) -> None:
    bin_dir = install(LEFT_BEHIND, sound_bin_dir, tmp_path / "bin")

    run_check(LEAVES_NO_PROCESS, subject(Profile.INTERFACE, bin_dir), state_dir=tmp_path, options=CheckOptions())

    left = [int(pid) for pid in (bin_dir / "pids").read_text().split()]
    assert len(left) == 2
    assert not any(map(is_running, left))


@pytest.mark.parametrize(
    ("on_add", "on_del"),
    [
        pytest.param('process "$CNI_CONTAINERID"', 'end "$CNI_CONTAINERID"', id="one for each pod, which DEL ends"),
        pytest.param('[ -e "$here/shared" ] || process shared', "", id="one for all pods"),
        pytest.param("end shared; process shared", "", id="one for all pods, started anew for each"),
    ],
)
def test_other_processes_are_no_fault(on_add: str, on_del: str, sound_bin_dir: Path, tmp_path: Path) -> None:
    bin_dir = install(LEFT_BEHIND, sound_bin_dir, tmp_path / "bin")
    script = WITH_PROCESSES.replace("ON_ADD", on_add).replace("ON_DEL", on_del or ":")
    (bin_dir / "bridge").write_text(script)

    finding = run_check(
        LEAVES_NO_PROCESS, subject(Profile.INTERFACE, bin_dir), state_dir=tmp_path, options=CheckOptions()
    )

    assert finding.outcome is Outcome.PASS, finding.detail


def test_workers_of_the_server_are_no_leak_of_the_plugin(served_bin_dir: Path, tmp_path: Path) -> None:
    bridge = subject(Profile.INTERFACE, served_bin_dir)

    finding = run_check(LEAVES_NO_PROCESS, bridge, state_dir=tmp_path, options=CheckOptions())

    assert finding.outcome is Outcome.PASS, finding.detail
