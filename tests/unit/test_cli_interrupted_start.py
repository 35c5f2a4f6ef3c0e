"""Ctrl-C while `cni-harness` starts, from its first module on: no traceback, and the shell's exit code is 130."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import ROOT, interrupting

pytestmark = pytest.mark.slow(
    "many starts of the command line, each interrupted; test_pods_signals ends adds in make test"
)

SCRIPT = "import sys; from harness.cli.main import main; sys.exit(main())"
"""The console script, as pip writes it."""
STEP = 12


def start(tmp_path: Path, *words: str, under: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": str(ROOT),
        "CNI_HARNESS_STATE_DIR": str(tmp_path),
    }
    command = [*under, sys.executable, "-c", SCRIPT, *words]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)


def openings(tmp_path: Path, *words: str) -> range:
    """Return the numbers of the files that a start opens after its first module."""
    log = tmp_path / "log"
    start(tmp_path, *words, under=[])  # it writes compiled modules, which take further files
    ran = start(tmp_path, *words, under=["strace", "-qq", "-e", "trace=openat", "-o", str(log)])
    assert ran.returncode == 0, ran.stderr
    lines = log.read_text().splitlines()
    first = max(number for number, line in enumerate(lines, 1) if "/harness/cli/" in line and "/main." in line)
    return range(first + 1, len(lines))


@pytest.mark.parametrize("words", [["get"], ["--help"]], ids=" ".join)
def test_interrupted_start_prints_no_traceback(tmp_path: Path, words: list[str]) -> None:
    for opened in openings(tmp_path, *words)[::STEP]:
        ran = start(tmp_path, *words, under=interrupting(opened))

        assert ran.returncode in {-signal.SIGINT, 130}, f"file {opened}: {ran.stderr}"
        assert ran.stderr in {"", "Error: interrupted\n", "\nError: interrupted\n"}, f"file {opened}"


def test_start_with_sigint_ignored_goes_on(tmp_path: Path) -> None:
    opened = openings(tmp_path, "--version")[0]
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *interrupting(opened)]

    assert start(tmp_path, "--version", under=ignoring).stdout.startswith("cni-harness ")
