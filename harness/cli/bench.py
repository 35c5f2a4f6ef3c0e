"""`cni-harness bench`: the speed of plugins, side by side."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.option_types import named_folders
from harness.cli.options import Settings, verb
from harness.output import emit, say, write

if TYPE_CHECKING:
    from harness.bench.measurements import BenchExtent
    from harness.bench.report import Findings

_FILE = click.Path(dir_okay=False, path_type=Path)


def _numbers(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Read an option's numbers, ',' between them. Raises BadParameter."""
    if text is None:
        return None
    try:
        numbers = sorted({int(number) for number in text.split(",")})
    except ValueError:
        numbers = [-1]
    if numbers[0] < 0:
        raise click.BadParameter(f"{text!r}: wanted numbers with ',' between", ctx, param)
    return tuple(numbers)


@verb(
    "bench",
    examples={
        "bench --quick": "See that it works, in seconds",
        "bench --bin-dir build --bin-dir /usr/lib/cni --save bench.json": "Measure two suites",
    },
    root="makes network namespaces",
)
@click.option(
    "--bin-dir",
    "folders",
    multiple=True,
    metavar="[NAME=]DIR[:DIR]",
    help="Plugins to measure; once for each suite. Ratios are to the last.  [default: our own, and /usr/lib/cni]",
)
@click.option("--conf", "confs", multiple=True, type=_FILE, metavar="FILE", help="A network list; once for each.")
@click.option("--serve/--no-serve", default=True, show_default=True, help="Start a server for our own plugins.")
@click.option("--quick", is_flag=True, help="A few samples of everything, to see that it works.")
@click.option("--rounds", type=click.IntRange(min=1), metavar="N", help="Samples of each series.")
@click.option("--pods", callback=_numbers, metavar="N,…", help="How many pods nodes are filled with.")
@click.option("--at-once", callback=_numbers, metavar="N,…", help="How many ADDs at once.")
@click.option("--repetitions", type=click.IntRange(min=1), metavar="N", help="How often each of those.")
@click.option("--save", type=_FILE, metavar="FILE", help="Also write the JSON document into a file.")
@click.option("--plot", "plots", multiple=True, type=_FILE, metavar="FILE", help="Draw it, .svg or .png.")
def command(
    settings: Settings,
    *,
    folders: tuple[str, ...],
    confs: tuple[Path, ...],
    serve: bool,
    quick: bool,
    save: Path | None,
    plots: tuple[Path, ...],
    **extent: int | tuple[int, ...] | None,
) -> None:
    """Measure plugins, several suites in turns, and print how they compare.

    ADD and DEL one after the other and many at once, on nodes with few pods and with thousands; VERSION and STATUS; CPU
    time, memory and bytes on disk. All on nodes made for the run, which are gone afterwards. docs/performance.md
    explains the figures.
    """
    from harness.bench.measure import run_bench
    from harness.bench.plot import check_plots
    from harness.bench.suites import suites_of
    from harness.libcni.networks import read_network_file

    shared = [":".join(map(str, settings.bin_dirs))] if settings.bin_dirs else []
    # Errors of the output are found before the measurement, not after it.
    check_plots(plots)
    networks = [read_network_file(path) for path in confs]
    with suites_of(named_folders(folders or shared), serve=serve) as suites:
        findings = run_bench(suites, networks, _extent(quick, extent), state_dir=settings.state_dir, progress=say)
    _write(findings, save, plots)
    tables = list(findings.tables().values())
    # A document is printed once, with whichever table.
    for number, table in enumerate(tables if settings.is_table else tables[:1]):
        if number:
            write("")
        emit(settings.output, findings.document(), table)


# The shared option is one CNI_PATH; here each is a suite.
command.params = [param for param in command.params if param.name != "bin_dirs"]


def _extent(quick: bool, wanted: dict[str, int | tuple[int, ...] | None]) -> "BenchExtent":
    from dataclasses import replace

    from harness.bench.measurements import QUICK, BenchExtent

    given: dict[str, Any] = {key: value for key, value in wanted.items() if value is not None}
    return replace(QUICK if quick else BenchExtent(), **given)


def _write(findings: "Findings", save: Path | None, plots: tuple[Path, ...]) -> None:
    from harness.bench.plot import plot
    from harness.files import write_atomically

    if save is not None:
        save.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(save, json.dumps(findings.document()).encode() + b"\n")
    if plots:
        plot(findings.recording, findings.names, [network.name for network in findings.networks], plots)
