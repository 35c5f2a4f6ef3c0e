"""Break a line of the product, and see that a test fails; for each fault of faults.yaml.

`python -m tools.faults [NUMBER...]`, as root. Each test passes without the fault, and fails with it, on a copy of the
checkout. The exit code is 1 if any does not.
"""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final

from tools.faults.draw import draw
from tools.faults.run import copy_checkout, green, is_found, tests_of_make
from tools.faults.table import TABLE, Fault, FaultError, find, product, read_table

_IN_MAKE_TEST: Final = 50
"""So many of the faults are found by tests of `make test`, at least."""


def main(arguments: list[str]) -> int:
    """Examine the faults, or print one of the two lists; return the exit code."""
    parser = ArgumentParser(prog="python -m tools.faults", description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="of the faults to examine; default: all")
    parser.add_argument("--jobs", type=int, default=2, help="tests at once  [%(default)s]")
    parser.add_argument("--output", action="store_true", help="print pytest's output for each fault")
    parser.add_argument("--draw", action="store_true", help="print the lines that the seed draws, and run nothing")
    parser.add_argument("--where", action="store_true", help="tell which tests are in make test, and run nothing")
    options = parser.parse_args(arguments)
    faults, skipped = read_table(TABLE.read_text())
    if options.draw:
        return _print_draw(faults, skipped)
    if options.where:
        return _print_where(faults)
    if unknown := set(options.numbers) - {fault.number for fault in faults}:
        parser.error(f"no fault {', '.join(map(str, sorted(unknown)))}")
    chosen = [fault for fault in faults if not options.numbers or fault.number in options.numbers]
    return _examine(chosen, options.jobs, output=options.output)


def _print_draw(faults: Sequence[Fault], skipped: dict[int, str]) -> int:
    notes = {fault.draw: f"fault {fault.number}" for fault in faults} | skipped
    for number, line in enumerate(draw(), 1):
        sys.stdout.write(f"{number:2} {line.path}:{line.number}: {line.text}\n     {notes.get(number, 'not used')}\n")
    return 0


def _print_where(faults: Sequence[Fault]) -> int:
    collected = tests_of_make()
    others = [fault for fault in faults if fault.test not in collected]
    for fault in others:
        sys.stdout.write(f"{fault.number:2} not in make test: {fault.test}\n")
    number = len(faults) - len(others)
    sys.stdout.write(f"{number} of {len(faults)} faults are found by make test; at least {_IN_MAKE_TEST} must be\n")
    return int(number < _IN_MAKE_TEST)


def _examine(faults: Sequence[Fault], jobs: int, *, output: bool) -> int:
    sources = product()
    rooms = {fault.number: find(fault, sources).room for fault in faults}
    with TemporaryDirectory(prefix="cni-harness-faults-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copies.put(copy_checkout(Path(folder) / str(number)))

        def examine(fault: Fault) -> bool:
            copy, begin = copies.get(), time.monotonic()
            try:
                found, text = is_found(copy, fault)
            finally:
                copies.put(copy)
            seconds = time.monotonic() - begin
            verdict = "found    " if found else "NOT FOUND"
            line = f"{fault.number:2}  {rooms[fault.number]:24} {verdict} {seconds:5.1f} s  {fault.fault}\n"
            sys.stdout.write(line + (text if output else ""))
            sys.stdout.flush()
            return found

        copy = copies.get()
        if not_green := green(copy, faults, jobs):
            sys.stdout.write(f"{not_green}not green without a fault\n")
            return 1
        copies.put(copy)
        with ThreadPoolExecutor(jobs) as pool:
            found = list(pool.map(examine, faults))
    sys.stdout.write(f"{sum(found)} of {len(faults)} faults are found; without them, all tests pass\n")
    return int(not all(found))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except FaultError as error:
        sys.exit(str(error))
