"""`cni-harness conformance matrix`: several suites of plugins side by side."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.conformance_options import FILE, ConformanceOptions, survey_options
from harness.cli.conformance_reports import writable_folder
from harness.cli.options import Settings, named_folders, needs_root, verb
from harness.output import emit
from harness.table import Table

if TYPE_CHECKING:
    from harness.conformance.examination import Examination
    from harness.conformance.report.matrix import Matrix
    from harness.conformance.survey import Survey

__all__ = ["matrix"]


@verb("matrix")
@click.option(
    "--bin-dir",
    "folders",
    multiple=True,
    required=True,
    metavar="[NAME=]DIR[:DIR]",
    help="Plugins to examine; once for each suite.",
)
@survey_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "html"]),
    help="Of the page.  [default: by the name of the file; Markdown]",
)
@click.option("--save", type=FILE, metavar="FILE", help="Write the page into a file.  [default: print it]")
@click.option(
    "--reports",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also write a short report and a page about each suite, into DIR/NAME.",
)
def matrix(
    settings: Settings,
    *,
    options: ConformanceOptions,
    folders: tuple[str, ...],
    form: str | None,
    save: Path | None,
    reports: Path | None,
) -> None:
    """Compare suites of plugins: a row for each check, a column for each suite, and below it the failures in words.

    If a suite lacks a plugin, its column omits it. The exit code does not depend on the findings.
    """
    from harness.conformance.report.matrix import matrix_of
    from harness.conformance.report.submission import write_folder

    needs_root("conformance matrix", "makes network namespaces")
    named = named_folders(folders)
    with options.survey(settings) as survey:
        for folder in filter(None, (save and save.parent, reports)):
            writable_folder(folder)
        suites = {name: _examined(survey, bin_dirs, options) for name, bin_dirs in named.items()}
    if not any(suite.findings for suite in suites.values()):
        raise click.UsageError("no suite has a plugin that any of these checks is for")
    if reports is not None:
        for name, suite in suites.items():
            write_folder(suite, reports / name)
    page = _page(
        matrix_of({name: suite.findings for name, suite in suites.items()}),
        form or ("html" if save and save.suffix in (".html", ".htm") else "markdown"),
    )
    _deliver(page, save, settings, suites)


# The shared option is one CNI_PATH; here each is a suite.
matrix.params = [param for param in matrix.params if param.name != "bin_dirs"]


def _examined(survey: "Survey", bin_dirs: Sequence[Path], options: ConformanceOptions) -> "Examination":
    from harness.conformance.examined import examination_of
    from harness.conformance.reproduce import Arguments

    began = datetime.now().astimezone()
    findings = survey.of(bin_dirs, lenient=True)
    prepare = ("--prepare", str(options.preparation)) if options.preparation else ()
    arguments = Arguments(bin_dirs=tuple(bin_dirs), options=prepare)
    return examination_of(findings, began=began, state_dir=survey.state_dir, arguments=arguments)


def _page(compared: "Matrix", form: str) -> str:
    if form == "html":
        from harness.conformance.report.page import to_html

        return to_html(compared)
    from harness.conformance.report.markdown import to_markdown

    return to_markdown(compared)


def _deliver(page: str, save: Path | None, settings: Settings, suites: Mapping[str, "Examination"]) -> None:
    from harness.conformance.report.document import document
    from harness.conformance.report.wording import counts, tally
    from harness.files import write_atomically

    if save is not None:
        write_atomically(save, page.encode())
    elif settings.is_table:
        click.echo(page, nl=False)
        return
    rows = [[name, tally(counts(suite.findings))] for name, suite in suites.items()]
    documents = [{"suite": name, **document(suite)} for name, suite in suites.items()]
    emit(settings.output, {"suites": documents}, Table(("SUITE", "CHECKS"), rows))
