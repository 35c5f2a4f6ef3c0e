"""Runs tests on copies of the checkout, each with one fault or none.

A copy lies over the checkout, in a mount namespace of its own. So it has the path that the editable installation, the
programs in `.venv/bin` and the launchers name, and no test executes a file of the checkout itself.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree as ET

from tools.faults.table import ROOT, Fault, broken_text, find, product

_LAUNCHER: Final = "launch/_launcher"
"""A compiled file that git ignores, and that plugins start with."""
_VENV: Final = ".venv"
_OVER_THE_CHECKOUT: Final = """
[ ! -d "$1/.venv" ] || mount --bind "$1/.venv" "$2/.venv"
mount --rbind "$2" "$1"
cd "$1"
shift 2
exec "$@"
"""
_RESULTS: Final = "build/faults.xml"
_FAILED: Final = 1
"""pytest's exit code for tests that failed; errors of collection and usage have others."""
_TIMEOUT: Final = 300
"""Seconds for one test."""


class Outcome(NamedTuple):
    """The outcome of a test run."""

    code: int
    passed: list[str]
    failed: list[str]
    """Names of tests that failed; neither these nor the passed ones had an error in a fixture or were skipped."""
    output: str


def copy_checkout(folder: Path) -> Path:
    """Copy the files of the checkout that git does not ignore, and the compiled launcher, into `folder`; return it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\0")
    for name in {*names, _LAUNCHER}:
        if name and os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    (folder / _VENV).mkdir()
    return folder


def run_tests(copy: Path, tests: Sequence[str], jobs: int = 1) -> Outcome:
    """Run tests on a copy. Raises FileNotFoundError if pytest does not come to its end."""
    (copy / _RESULTS).unlink(missing_ok=True)
    workers = ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else []
    over = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-ec",
        _OVER_THE_CHECKOUT,
        "sh",
        str(ROOT),
        str(copy),
    ]
    pytest = [sys.executable, "-m", "pytest", *workers, "-p", "no:cacheprovider", "-q", "--both-kinds"]
    options = ["-o", f"timeout={_TIMEOUT}", "--junitxml", _RESULTS]
    ran = subprocess.run(
        [*over, "tools/test_run.sh", *pytest, *options, *tests],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
    passed: list[str] = []
    failed: list[str] = []
    cases = ET.parse(copy / _RESULTS).iter("testcase") if (copy / _RESULTS).exists() else ()  # noqa: S314 -- our own
    for case in cases:
        kinds = {child.tag for child in case}
        if not kinds & {"error", "skipped"}:
            (failed if "failure" in kinds else passed).append(case.get("name", ""))
    return Outcome(ran.returncode, passed, failed, ran.stdout)


def green(copy: Path, faults: Sequence[Fault], jobs: int) -> str:
    """Run the tests of all faults without any fault; return pytest's output unless all pass, otherwise ""."""
    tests = sorted({fault.test for fault in faults})
    outcome = run_tests(copy, tests, jobs)
    return "" if outcome.code == 0 and len(outcome.passed) == len(tests) else outcome.output


def is_found(copy: Path, fault: Fault) -> tuple[bool, str]:
    """Run a fault's test on a copy with the fault; tell whether it fails, and return pytest's output.

    An error of collection or of a fixture is no failure. Raises FaultError as `find` does.
    """
    place = find(fault, product(copy))
    file = copy / place.path
    sound, status = file.read_text(), file.stat()
    try:
        file.write_text(broken_text(fault, place, sound))
        outcome = run_tests(copy, [fault.test])
    finally:
        file.write_text(sound)
        # The time of the sound file belongs to its byte code.
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    return outcome.code == _FAILED and len(outcome.failed) == 1 and not outcome.passed, outcome.output


def marker_expression(commands: str) -> str:
    """Return the expression after `-m` of the command of pytest in make's commands. Raises ValueError."""
    [command] = [line for line in commands.replace("\\\n", " ").splitlines() if re.search(r"-m pytest\b", line)]
    words = shlex.split(command)
    options = words[words.index("pytest") + 1 :]
    return options[options.index("-m") + 1]


def tests_of_make() -> set[str]:
    """Return the node IDs of the tests that `make test` runs. Raises CalledProcessError, ValueError."""
    make = ["make", "--dry-run", "--no-print-directory", "test", "PYTEST_ARGS="]
    commands = subprocess.run(make, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marker_expression(commands)]
    collected = subprocess.run(collect, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line for line in collected.splitlines() if "::" in line}
