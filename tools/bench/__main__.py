"""Measure this project's rows and judge them: `python -m tools.bench [OPTION...]`, as root, on nodes made for it."""

import json
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.bench.rows import Extent, chosen, rows
from tools.bench.run import check_pages, measure, write_pages
from tools.bench.subjects import subjects

_QUICK: Final = Extent(rounds=12, batches=3, batch=8, repetitions=3, pods_with_ports=100)


def main(arguments: list[str]) -> int:
    """Measure and print the table; return 1 if a target was not reached."""
    options = _parser().parse_args(arguments)
    extent = _QUICK if options.quick else Extent()
    extent = replace(extent, against=str(options.against.resolve() if options.against else ""))
    extent = replace(extent, **{key: value for key in ("rounds", "repetitions") if (value := getattr(options, key))})
    if options.pages:
        check_pages()
    with TemporaryDirectory(prefix="cni-harness-bench-", dir="/var/tmp") as state, subjects() as suites:
        run = measure(suites, extent, Path(state), options.rows)
        if options.save is not None:
            options.save.write_text(json.dumps(run.document()))
        if options.pages:
            write_pages(run, suites, Path(state))
    return int(any(each.reached is False for each in run.results))


def _rows_pattern(text: str) -> str:
    """Accept a regular expression that is in a row. Raises ArgumentTypeError."""
    try:
        found = chosen(rows(Extent()), text)
    except re.error as error:
        raise ArgumentTypeError(f"{text!r}: {error}") from error
    if not found:
        raise ArgumentTypeError(f"{text!r} is in no row")
    return text


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer turns: rough figures in some minutes")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--rows",
        metavar="PATTERN",
        type=_rows_pattern,
        default="",
        help="only rows with this regular expression in LOOP: WORK, such as 'gone' or '^one:'",
    )
    which.add_argument(
        "--pages", action="store_true", help="also run `cni-harness bench`, and write docs/performance.md"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="turns of each suite, one execution after the other")
    parser.add_argument("--repetitions", type=int, metavar="N", help="turns of each suite with many at once")
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="measure `cni-harness add` of another checkout in turns, too"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write the figures into a file, as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
