"""A busy machine: a violation that does not come back, or that is one of time, is no finding; any other one is."""

import threading
import time
from pathlib import Path

import pytest

from harness.conformance.check_options import CheckOptions
from harness.conformance.checks import all_checks
from harness.conformance.engine import examiner
from harness.conformance.engine.examiner import Examiner
from harness.conformance.finding import Finding, Outcome
from harness.conformance.subject import Profile
from tests.conformance.subjects import Faulty, install, subject
from tests.nodes import HANG

CHECKS = {check.id: check for check in all_checks()}
SOUND = 'exec "${0%/*}/sound/${0##*/}"\n'
ONCE = '[ "$CNI_COMMAND" = VERSION ] && mkdir FOLDER/once 2>/dev/null && exit 7\n'
ALWAYS = '[ "$CNI_COMMAND" = VERSION ] && exit 7\n'
HANGS = '[ "$CNI_COMMAND" = VERSION ] && exec sleep 1000\n'


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> float:
    """A machine that is said to be twice as slow as usual."""
    monkeypatch.setattr(examiner, "slowness", lambda _: 2.0)
    return 2.0


def version_result(body: str, sound: Path, folder: Path, timeout: float) -> Finding:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{body.replace('FOLDER', str(folder))}{SOUND}")
    path.chmod(0o755)
    bin_dir = install(Faulty(path, "", (), Profile.INTERFACE, "bridge"), sound, folder / "bin")
    tested = subject(Profile.INTERFACE, bin_dir)
    examining = Examiner(tested, state_dir=folder / "state", options=CheckOptions(timeout=timeout))
    return examining.find(CHECKS["version-result"])


@pytest.mark.sudo
@pytest.mark.parametrize(
    ("body", "timeout", "outcome"),
    [(ONCE, HANG, Outcome.NOT_EXAMINED), (ALWAYS, HANG, Outcome.FAIL), (HANGS, 1.0, Outcome.NOT_EXAMINED)],
    ids=["once", "always", "hangs"],
)
@pytest.mark.usefixtures("slow")
def test_violation_on_a_busy_machine_is_a_finding_if_it_comes_back_and_is_not_of_time(
    body: str, timeout: float, outcome: Outcome, sound_bin_dir: Path, tmp_path: Path
) -> None:
    finding = version_result(body, sound_bin_dir, tmp_path, timeout)

    assert finding.outcome is outcome, finding.detail
    if outcome is Outcome.NOT_EXAMINED:
        assert finding.detail == "not examined, because of this machine: it is busy, 2 times slower than usual"


@pytest.mark.sudo
def test_slowness_is_measured_and_leaves_nothing(tmp_path: Path) -> None:
    assert examiner.slowness(tmp_path / "state") >= 1.0
    assert list((tmp_path / "state").glob("nodes/*")) == []


def test_work_alone_begins_when_no_other_work_goes_on_and_lets_none_begin() -> None:
    quiet, events = examiner.Quiet(), list[str]()
    beside, go_on = threading.Event(), threading.Event()

    def work_beside() -> None:
        with quiet.beside():
            beside.set()
            go_on.wait()
            events.append("beside ended")

    def work_alone() -> None:
        with quiet.alone():
            events.append("alone began")
            later.start()
            time.sleep(0.05)
            events.append("alone ended")

    def work_later() -> None:
        with quiet.beside():
            events.append("later began")

    later = threading.Thread(target=work_later)
    threads = [threading.Thread(target=each) for each in (work_beside, work_alone)]
    threads[0].start()
    beside.wait()
    threads[1].start()
    time.sleep(0.05)
    go_on.set()
    for thread in (*threads, later):
        thread.join()

    assert events == ["beside ended", "alone began", "alone ended", "later began"]
