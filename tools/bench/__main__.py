"""Measure this project's rows and judge them: `python -m tools.bench [OPTION...]`, as root, on nodes made for it."""

import json
import re
import sys
from argparse import ArgumentParser
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from harness.bench.document import machine
from harness.output import Table
from harness.site import Site
from tools.bench.loops import Loops
from tools.bench.rows import Extent, judged, rows, table
from tools.bench.subjects import subjects

if TYPE_CHECKING:
    from harness.bench.recording import Recording

__all__ = ["main"]

_QUICK = Extent(rounds=12, batches=3, batch=8, repetitions=3)


def main(arguments: list[str]) -> int:
    """Measure and print the table; return 1 if a target was not reached."""
    parser = ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer turns: rough figures in a few minutes")
    parser.add_argument("--rows", metavar="PATTERN", default="", help="only rows with this regular expression in them")
    parser.add_argument("--rounds", type=int, metavar="N", help="turns of each suite, one execution after the other")
    parser.add_argument("--repetitions", type=int, metavar="N", help="turns of each suite with many at once")
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write all samples into a file, as JSON")
    options = parser.parse_args(arguments)
    extent = _QUICK if options.quick else Extent()
    extent = replace(extent, **{key: value for key in ("rounds", "repetitions") if (value := getattr(options, key))})
    wanted = [row for row in rows(extent) if re.search(options.rows, f"{row.loop}: {row.work}", re.IGNORECASE)]
    where = machine()
    recordings: dict[str, Recording] = {}
    with TemporaryDirectory(prefix="cni-harness-bench-", dir="/var/tmp") as state, subjects() as suites:
        for loop in dict.fromkeys(row.loop for row in wanted):
            sys.stderr.write(f"{loop} …\n")
            with Site(Path(state), "bench") as site:
                recordings[loop] = Loops(site, suites, extent).run(loop)
            shown = table(judged([row for row in wanted if row.loop == loop], recordings))
            _print(shown)  # at once: all of them take a while
    results = judged(wanted, recordings)
    if options.save is not None:
        document = {"machine": where, "extent": asdict(extent), "rows": [each.document() for each in results]}
        options.save.write_text(json.dumps(document))
    return int(any(each.reached is False for each in results))


def _print(shown: Table) -> None:
    sys.stdout.write(shown.render(colour=False) + "\n\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
