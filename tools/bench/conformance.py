"""How long the conformance suite takes: `python -m tools.bench.conformance`, as root, on nodes that the suite makes.

It examines `bridge` and `host-local` of a list in tests/conformance/networks: ours, without a server, and Debian's, in
turns. The wall time says something on a machine without other work only. The processor time is beside it.
"""

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
from typing import Final

__all__ = ["main"]

_CLI: Final = (sys.executable, "-m", "harness.cli.main")
_LIST: Final = "tests/conformance/networks/bridge.conflist"
_REFERENCE: Final = Path("/usr/lib/cni")


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
        taken: dict[str, list[tuple[float, float]]] = {"ours": [], "reference": []}
        for _ in range(options.rounds):
            for suite, bin_dir in (("ours", ours), ("reference", _REFERENCE)):
                exit_code, *seconds = _examine(bin_dir, options.jobs)
                failed |= suite == "ours" and exit_code != 0
                taken[suite].append((seconds[0], seconds[1]))
    _say(f"bridge and host-local, {options.jobs} jobs, {options.rounds} rounds, {os.cpu_count()} processors; medians")
    for suite, runs in taken.items():
        wall, processor = (median(column) for column in zip(*runs, strict=True))
        _say(f"{suite}: {wall:.1f} s, processor time {processor:.1f} s")
    return int(failed)


def _examine(bin_dir: Path, jobs: int) -> tuple[int, float, float]:
    """Return the exit code, the wall time and the processor time in seconds, with that of all plugins."""
    before, began = _processor_seconds(), time.monotonic()
    command = [*_CLI, "conformance", "--bin-dir", str(bin_dir), "--conf", _LIST, "--jobs", str(jobs)]
    plugins = ["--plugin", "bridge", "--plugin", "host-local"]
    done = subprocess.run([*command, *plugins], check=False, stdout=subprocess.DEVNULL)
    return done.returncode, time.monotonic() - began, _processor_seconds() - before


def _processor_seconds() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
