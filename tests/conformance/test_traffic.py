"""`--traffic`: packets that the node forwards flow during each check, and a plugin that stops them is caught."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.finding import Finding, Outcome
from harness.conformance.subject import Profile
from tests.conformance.subjects import FAULTY, Faulty, install, run_check, subject
from tests.nodes import HANG

pytestmark = pytest.mark.sudo

CHECKS = {check.id: check for check in all_checks()}
OPTIONS = CheckOptions(timeout=HANG, traffic=True)
STOPPED_FOR_A_WHILE = """#!/bin/sh
if [ "$CNI_COMMAND" = ADD ]; then
    echo 0 >/proc/sys/net/ipv4/ip_forward
    sleep 8
    echo 1 >/proc/sys/net/ipv4/ip_forward
fi
exec "${0%/*}/sound/${0##*/}"
"""


def found(path: Path, sound: Path, folder: Path, options: CheckOptions) -> Finding:
    bin_dir = install(Faulty(path, "", (), Profile.INTERFACE, "bridge"), sound, folder / "bin")
    tested = subject(Profile.INTERFACE, bin_dir)
    return run_check(CHECKS["add-prints-result"], tested, state_dir=folder / "state", options=options)


def test_sound_plugin_does_not_stop_packets(sound_bin_dir: Path, tmp_path: Path) -> None:
    tested = subject(Profile.INTERFACE, sound_bin_dir)

    for name in ("add-prints-result", "add-keeps-node"):
        finding = run_check(CHECKS[name], tested, state_dir=tmp_path / "state", options=OPTIONS)
        assert finding.outcome is Outcome.PASS, finding.detail


def test_plugin_that_drops_forwarded_packets_fails_with_traffic(sound_bin_dir: Path, tmp_path: Path) -> None:
    path = FAULTY / "forward-chain-that-drops"

    quiet = found(path, sound_bin_dir, tmp_path / "quiet", replace(OPTIONS, traffic=False))
    busy = found(path, sound_bin_dir, tmp_path / "busy", OPTIONS)

    assert quiet.outcome is Outcome.PASS
    assert (busy.outcome, busy.got) == (Outcome.FAIL, "none arrives any more")


@pytest.mark.slow("it waits for seconds without packets; the others are in make test")
def test_packets_that_stop_during_an_add_are_found(sound_bin_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "plugin"
    path.write_text(STOPPED_FOR_A_WHILE)
    path.chmod(0o755)

    finding = found(path, sound_bin_dir, tmp_path, OPTIONS)

    assert finding.outcome is Outcome.FAIL
    assert finding.got.startswith("none arrives for ")
