"""A signal ends a plugin while it waits or between its steps, and neither in the middle of one nor while it undoes."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skel import Interruption, InterruptionError, Undo
from tests.cli import waits_for_a_lock
from tests.nodes import HANG, until
from tests.unit.host_local import HostLocal
from tests.unit.sample_plugin import ENVIRON, configuration

ROOT = Path(__file__).parents[2]
ENDING = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM]

PLUGIN = """
import os, signal, sys, time
sys.path.insert(0, {root!r})
from skel import Args, CniError, Config, Plugin, Result, Undo, main

def end():
    os.kill(os.getpid(), {number})

def touch(name):
    open({folder!r} + "/" + name, "w").close()

def add(args):
{add}

raise SystemExit(main(Plugin("sample", config=Config, add=add, delete=lambda args: None)))
"""


class Sample:
    """A plugin on `skel` whose ADD is a text; `end()` sends it a signal, `touch(NAME)` makes a file."""

    def __init__(self, folder: Path, add: str, number: int = signal.SIGTERM) -> None:
        self.folder = folder
        body = "".join(f"    {line}\n" for line in add.strip().splitlines())
        self._program = PLUGIN.format(root=str(ROOT), number=int(number), folder=str(folder), add=body)

    def start(self) -> subprocess.Popen[bytes]:
        """Start its ADD."""
        process = subprocess.Popen(
            [sys.executable, "-c", self._program],
            env={**ENVIRON, "CNI_COMMAND": "ADD"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(configuration()).encode())
        process.stdin.close()
        process.stdin = None
        return process

    def run(self) -> tuple[int, Any]:
        """Execute its ADD; return the exit code and the document on stdout."""
        return answer(self.start())

    def files(self) -> list[str]:
        """The files that it has made."""
        return sorted(path.name for path in self.folder.iterdir())


def answer(process: subprocess.Popen[bytes]) -> tuple[int, Any]:
    stdout, _ = process.communicate(timeout=HANG)
    return process.returncode, json.loads(stdout)


def ended_by(number: int) -> tuple[int, Any]:
    return -number, {"cniVersion": "1.1.0", "code": 999, "msg": f"ended by signal {int(number)}"}


STEPS = """
with Undo(args.log, args.interruption) as undo:
    undo.add(touch, "undone")
    end()
    touch("done")
    undo.add(touch, "undone-too")
    touch("next")
return Result()
"""


@pytest.mark.parametrize("number", ENDING)
def test_signal_lets_the_present_step_finish(tmp_path: Path, number: signal.Signals) -> None:
    sample = Sample(tmp_path, STEPS, number)

    assert sample.run() == ended_by(number)
    assert sample.files() == ["done", "undone", "undone-too"]


WAIT = """
with Undo(args.log, args.interruption) as undo:
    undo.add(touch, "undone")
    with args.interruption.waiting():
        touch("waiting")
        time.sleep(3600)
"""


def test_a_wait_ends_at_once(tmp_path: Path) -> None:
    sample = Sample(tmp_path, WAIT)
    process = sample.start()
    until((tmp_path / "waiting").exists)

    process.terminate()

    assert answer(process) == ended_by(signal.SIGTERM)
    assert sample.files() == ["undone", "waiting"]


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("wait", ["time.sleep(3600)", "while True: pass"])
def test_a_plugin_that_waits_without_saying_so_ends_too(tmp_path: Path, wait: str) -> None:
    sample = Sample(
        tmp_path, f"with Undo(args.log, args.interruption) as undo:\n    undo.add(touch, 'x')\n    end()\n    {wait}"
    )

    assert sample.run() == ended_by(signal.SIGTERM)
    assert sample.files() == ["x"]


def test_success_counts_if_the_signal_comes_before_its_output(tmp_path: Path) -> None:
    assert Sample(tmp_path, "end()\nreturn Result()").run() == (0, {"cniVersion": "1.1.0"})


UNDOING = """
def undo_for_long():
    end()
    while signal.getsignal(signal.SIGALRM) != signal.SIG_DFL:
        pass
    touch("second")
with Undo(args.log, args.interruption) as undo:
    undo.add(touch, "first")
    undo.add(undo_for_long)
    raise CniError(107, "failed by itself")
"""


def test_undoing_is_not_cut_short(tmp_path: Path) -> None:
    """Not even if it takes longer than a plugin that waits without saying so is given."""
    sample = Sample(tmp_path, UNDOING)

    code, error = sample.run()

    assert (code, error["code"]) == (-signal.SIGTERM, 107)
    assert sample.files() == ["first", "second"]


def test_a_second_signal_does_not_cut_undoing_short_either(tmp_path: Path) -> None:
    sample = Sample(
        tmp_path, UNDOING.replace('raise CniError(107, "failed by itself")', "end(); undo.add(lambda: None)")
    )

    assert sample.run() == ended_by(signal.SIGTERM)
    assert sample.files() == ["first", "second"]


@pytest.mark.parametrize("number", ENDING)
def test_host_local_does_not_wait_for_a_lock_any_longer(
    tmp_path: Path, direct_bin_dir: Path, number: signal.Signals
) -> None:
    net = HostLocal(tmp_path / "networks")
    net.add("other")
    with (net.folder / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            [direct_bin_dir / "host-local"],
            env={**ENVIRON, "CNI_COMMAND": "ADD"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(net.config).encode())
        process.stdin.close()
        process.stdin = None
        until(lambda: waits_for_a_lock(process.pid))

        os.kill(process.pid, number)

        assert answer(process) == ended_by(number)
    assert set(net.reservations().values()) == {"other\r\neth0"}


def test_interruption_is_raised_once() -> None:
    interruption = Interruption()

    with pytest.raises(InterruptionError, match="reason"), interruption.waiting():
        interruption.request("reason")

    interruption.request("another")
    with interruption.waiting():
        interruption.check()


def test_an_inverse_that_was_registered_last_runs_too() -> None:
    interruption = Interruption()
    undone: list[int] = []

    interruption.request("reason")
    with pytest.raises(InterruptionError), Undo(pytest.fail, interruption) as undo:
        undo.add(undone.append, 1)

    assert undone == [1]


def test_a_call_that_has_its_outcome_is_not_ended() -> None:
    interruption = Interruption()

    interruption.request("reason")
    interruption.settle()

    interruption.check()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_inverse_that_is_forgotten_does_not_run() -> None:
    undone: list[int] = []

    def fail() -> None:
        with Undo(pytest.fail) as undo:
            undo.add(undone.append, 1)
            undo.forget(undo.add(undone.append, 2))
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert undone == [1]
