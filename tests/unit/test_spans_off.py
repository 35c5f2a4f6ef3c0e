"""A plugin that nobody traces makes no system call for spans, and loads no module for them."""

import subprocess
import sys
from pathlib import Path

from tests.cli import ROOT
from tests.nodes import HANG

PROGRAM = """
import os, sys
sys.path.insert(0, {root!r})
import fast_stdlib
{prepare}
def steps():
    for number in range(1000):
        with fast_stdlib.span("step", waits=True, number=number, text="a text", names=["a", "b"]):
            fast_stdlib.span_note(found=number)
        fast_stdlib.recorder()
steps()
def marker():
    try:
        os.close(77777)
    except OSError:
        pass
marker()
steps()
marker()
print(*(name for name in ("skel.spans", "skel.trace", "netlink.spans") if name in sys.modules))
"""

RECORD = """
from skel.trace import FileRecorder
recorder = FileRecorder({file!r}, None)
context = fast_stdlib.recorded_by(recorder)
context.__enter__()
"""


def calls_between_markers(tmp_path: Path, prepare: str = "") -> tuple[list[str], str]:
    """Return the system calls of 1,000 steps, and the modules for traces that were loaded."""
    log = tmp_path / "calls"
    program = PROGRAM.format(root=str(ROOT), prepare=prepare)
    ran = subprocess.run(
        ["strace", "-f", "-o", log, sys.executable, "-IS", "-c", program],
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    lines = log.read_text().splitlines()
    first, last = (at for at, line in enumerate(lines) if "close(77777)" in line)
    return lines[first + 1 : last], ran.stdout.strip()


def test_without_a_recorder_there_is_no_system_call(tmp_path: Path) -> None:
    calls, modules = calls_between_markers(tmp_path)

    # Memory may be asked for by the interpreter itself.
    assert [call for call in calls if "brk(" not in call and "mmap(" not in call and "munmap(" not in call] == []
    assert modules == ""


def test_recorder_makes_visible_system_calls(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.touch()

    calls, _ = calls_between_markers(tmp_path, RECORD.format(file=str(file)))

    assert any("write(" in call for call in calls)
