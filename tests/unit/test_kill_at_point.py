"""The program that kills a plugin at a system call: it kills the plugin's processes, no other that has their PID."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from harness.conformance.engine import kill_at_point

ENDING = ("calls", "40", str(int(signal.SIGKILL)))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that starts others, and makes more than 40 system calls."""
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\nfor each in 1 2 3 4 5 6 7 8; do /bin/true; done\n")
    path.chmod(0o755)
    return path


def test_process_with_the_pid_of_one_that_ended_is_not_killed(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["sleep", "100"]) as other:
        begin = kill_at_point._Tracer.__init__

        def with_stale_pid(self: kill_at_point._Tracer, child: int, last: int, ending: signal.Signals) -> None:
            begin(self, child, last, ending)
            self._known.add(other.pid)

        monkeypatch.setattr(kill_at_point._Tracer, "__init__", with_stale_pid)
        # A child of its own: the tracer waits for all children of its process.
        tracer = os.fork()
        if tracer == 0:
            os._exit(kill_at_point.main(*ENDING, str(tmp_path / "report"), str(program)))
        _, status = os.waitpid(tracer, 0)
        lives = other.poll() is None
        other.kill()

    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGKILL
    assert lives


def test_report_has_the_calls_up_to_the_kill(program: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    tracer = os.fork()
    if tracer == 0:
        os._exit(kill_at_point.main(*ENDING, str(report), str(program)))
    os.waitpid(tracer, 0)

    assert report.read_text().split()[0] == "40"
