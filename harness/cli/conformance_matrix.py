"""`cni-harness conformance matrix`: several suites of plugins side by side."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.conformance_options import FILE, ConformanceOptions, conformance_options, demand_known
from harness.cli.conformance_run import SuiteResult, conformance_run, examine_suite, stopped_by_signals, writable_folder
from harness.cli.option_types import named_folders
from harness.cli.options import Settings, verb
from harness.cli.privileges import obtain_privileges
from harness.output import TextTable, emit, write

if TYPE_CHECKING:
    from harness.conformance.engine.examination import Examination
    from harness.conformance.report.matrix import Matrix


@verb(
    "matrix",
    examples={
        "conformance matrix --bin-dir build --bin-dir /usr/lib/cni": "Examine two suites side by side",
        "conformance matrix --bin-dir bin --conf my.conflist --save page.md": "Write a page about one",
    },
)
@click.option(
    "--bin-dir",
    "folders",
    multiple=True,
    required=True,
    metavar="[NAME=]DIR[:DIR]",
    help="Plugins to examine; once for each suite.",
)
@conformance_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "html"]),
    help="Of the page.  [default: by the name of the file; Markdown]",
)
@click.option("--save", type=FILE, metavar="FILE", help="Write the page into a file.  [default: print it]")
@click.option("--build", "builds", multiple=True, metavar="NAME=TEXT", help="How the plugins of a suite were built.")
@click.option(
    "--reports",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also write a short report and a page about each suite, into DIR/NAME.",
)
@click.pass_context
def matrix(
    ctx: click.Context,
    settings: Settings,
    *,
    options: ConformanceOptions,
    folders: tuple[str, ...],
    form: str | None,
    save: Path | None,
    builds: tuple[str, ...],
    reports: Path | None,
) -> None:
    """Compare suites of plugins: a row for each check, a column for each suite, and below it the failures in words.

    If a suite lacks a plugin, its column omits it. The exit code does not depend on the findings. After Ctrl-C the page
    has everything that was found.
    """
    from harness.conformance.report.matrix import matrix_of
    from harness.conformance.report.submission import write_folder

    obtain_privileges("conformance matrix")
    named = named_folders(folders)
    built = {name: text for name, _, text in (each.partition("=") for each in builds)}
    demand_known("--build", list(built), list(named))
    with conformance_run(options, settings) as run:
        for folder in filter(None, (save and save.parent, reports)):
            writable_folder(folder)
        suites: dict[str, Examination] = {}
        made = SuiteResult()
        with stopped_by_signals(run.options.stop) as signals:
            for name, bin_dirs in named.items():
                began = datetime.now().astimezone()
                # A suite that does not begin any more has no findings, and the reason.
                made = (
                    SuiteResult(error=made.error, cut_short="interrupted" if signals else made.cut_short)
                    if made.error
                    else examine_suite(run, bin_dirs, signals, lenient=True)
                )
                suites[name] = made.examination(run, began, options.arguments(ctx, bin_dirs), built.get(name, ""))
    if not any(suite.findings or suite.cut_short for suite in suites.values()):
        raise click.UsageError("no suite has a plugin that any of these checks is for")
    if reports is not None:
        for name, suite in suites.items():
            write_folder(suite, reports / name)
    page = _page(matrix_of(suites), form or ("html" if save and save.suffix in (".html", ".htm") else "markdown"))
    _deliver(page, save, settings, suites)
    made.pass_on(signals)


# The shared option is one CNI_PATH; here each is a suite.
matrix.params = [param for param in matrix.params if param.name != "bin_dirs"]


def _page(compared: "Matrix", form: str) -> str:
    if form == "html":
        from harness.conformance.report.page import comparison_page

        return comparison_page(compared)
    from harness.conformance.report.markdown import comparison_in_markdown

    return comparison_in_markdown(compared)


def _deliver(page: str, save: Path | None, settings: Settings, suites: Mapping[str, "Examination"]) -> None:
    from harness.conformance.report.document import document
    from harness.conformance.report.wording import counts, tally
    from harness.files import write_atomically

    if save is not None:
        write_atomically(save, page.encode())
    elif settings.is_table:
        write(page, nl=False)
        return
    rows = [[name, tally(counts(suite.findings))] for name, suite in suites.items()]
    documents = [{"suite": name, **document(suite)} for name, suite in suites.items()]
    emit(settings.output, {"suites": documents}, TextTable(("SUITE", "CHECKS"), rows))
