"""How long the conformance suite takes: `python -m tools.bench.conformance`, as root, on nodes that the suite makes.

It examines `bridge` and `host-local` of a list in tests/conformance/networks: ours, without a server, and Debian's, in
turns. The wall time says something on a machine without other work only. The processor time is beside it, and so are
the executions in the transcripts of the checks. Delegates, and executions on a check's further nodes, come on top.
"""

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

_CLI: Final = (sys.executable, "-m", "harness.cli.main")
_LIST: Final = "tests/conformance/networks/bridge.conflist"
_REFERENCE: Final = Path("/usr/lib/cni")


class _Run(NamedTuple):
    """One run of a suite. Times are in seconds; those of the processors include all plugins."""

    wall: float
    processor: float
    checks: int
    executions: int


def main(arguments: Sequence[str]) -> int:
    """Measure and print a line for each suite; return 1 if a run found a MUST violated or did not end."""
    parser = ArgumentParser(prog="python -m tools.bench.conformance", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    failed = False
    with TemporaryDirectory(prefix="cni-harness-conformance-", dir="/var/tmp") as folder:
        ours = Path(folder, "bin")
        state = Path(folder, "install")
        install = [*_CLI, "--state-dir", str(state), "install", "--no-units", "--bin-dir", str(ours)]
        subprocess.run(install, check=True, capture_output=True)
        taken: dict[str, list[_Run]] = {"ours": [], "reference": []}
        for _ in range(options.rounds):
            for suite, bin_dir in (("ours", ours), ("reference", _REFERENCE)):
                exit_code, run = _examine(bin_dir, options.jobs)
                failed |= suite == "ours" and exit_code != 0
                taken[suite].append(run)
    _say(f"bridge and host-local, {options.jobs} jobs, {options.rounds} rounds, {os.cpu_count()} processors; medians")
    for suite, runs in taken.items():
        wall, processor, checks, executions = (median(column) for column in zip(*runs, strict=True))
        times = f"{wall:.1f} s, processor time {processor:.1f} s"
        _say(f"{suite}: {times}, {checks:.0f} checks, {executions:.0f} executions")
    return int(failed)


def _examine(bin_dir: Path, jobs: int) -> tuple[int, _Run]:
    """Return the exit code and the figures of one run."""
    before, began = _processor_seconds(), time.monotonic()
    command = [*_CLI, "conformance", "--bin-dir", str(bin_dir), "--conf", _LIST, "--jobs", str(jobs)]
    plugins = ["--plugin", "bridge", "--plugin", "host-local", "-v", "-o", "json"]
    done = subprocess.run([*command, *plugins], check=False, stdout=subprocess.PIPE)
    wall, processor = time.monotonic() - began, _processor_seconds() - before
    checks = json.loads(done.stdout)["checks"]
    return done.returncode, _Run(wall, processor, len(checks), sum(len(each["transcript"]) for each in checks))


def _processor_seconds() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
