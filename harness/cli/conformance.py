"""`cni-harness conformance`: does a plugin do what the specification says?"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from harness.cli.conformance_matrix import matrix
from harness.cli.conformance_options import ConformanceOptions, survey_options
from harness.cli.conformance_reports import ReportFiles, junit_option, report_option
from harness.cli.conformance_runtime import runtime
from harness.cli.conformance_session import session
from harness.cli.options import Settings, needs_root, say, verb
from harness.output import emit
from harness.table import Table

if TYPE_CHECKING:
    from harness.conformance.examination import Examination
    from harness.conformance.finding import Finding
    from harness.libcni.networks import NetworkList

__all__ = ["command"]


@verb("conformance", cls=click.Group, invoke_without_command=True)
@click.option("--list", "is_list", is_flag=True, help="Print the catalogue of checks, and execute nothing.")
@report_option
@junit_option
@click.option("--failures", is_flag=True, help="Show only failures.")
@survey_options
@click.pass_context
def command(
    ctx: click.Context,
    settings: Settings,
    *,
    options: ConformanceOptions,
    is_list: bool,
    reports: tuple[Path, ...],
    junit: Path | None,
    failures: bool,
) -> int:
    """Hold plugins, in any language, to CNI 1.1.0: checks for the sentences that require something of a plugin.

    Each plugin of the network list is executed as runtimes do, and in worse ways, on temporary nodes. Then its output
    and its leftovers are examined. Failures and warnings are shown, with -v also the other checks. The exit code is 1
    if a MUST is violated. docs/conformance.md explains the report.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_options(ctx)
        return 0
    if is_list:
        _print_catalogue(options, settings)
        return 0
    from harness.conformance.examined import examination_of
    from harness.conformance.finding import fatal

    files, began = ReportFiles(reports, junit), datetime.now().astimezone()
    settings.announces = True
    needs_root("conformance", "makes network namespaces")
    with options.survey(settings) as survey, _folders(settings, survey.networks) as bin_dirs:
        files.demand_writable()
        findings = survey.of(bin_dirs)
    if not findings:
        raise click.UsageError("none of these checks is for any of these plugins")
    examination = None
    if files or not settings.is_table:
        examination = examination_of(findings, began=began, state_dir=settings.state_dir)
    unwritten = files.write(examination) if examination else []
    if examination is None or settings.is_table:
        _print(findings, settings, failures=failures)
    else:
        _emit(examination, settings, failures=failures)
    for message in unwritten:
        say(f"Error: {message}")
    return 1 if fatal(findings) or unwritten else 0


command.add_command(matrix)
command.add_command(runtime)
command.add_command(session)


def _refuse_options(ctx: click.Context) -> None:
    for param in command.params:
        if param.expose_value and ctx.get_parameter_source(param.name or "") is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{param.opts[0]} goes behind `{ctx.invoked_subcommand}`", ctx)


def _folders(settings: Settings, networks: "Sequence[NetworkList]") -> AbstractContextManager[tuple[Path, ...]]:
    """Return the folders to search for plugins: only named folders if there are any, so no other plugin is examined."""
    from harness.cli.defaults import plugin_folders, plugin_types

    if settings.bin_dirs:
        return nullcontext(settings.bin_dirs)
    return plugin_folders(settings, plugin_types(networks))


def _print(findings: Sequence["Finding"], settings: Settings, *, failures: bool) -> None:
    from shutil import get_terminal_size

    from harness.conformance.report.text import report

    width = min(get_terminal_size((100, 24)).columns, 120)
    click.echo(report(findings, every=settings.verbose > 0, only_failures=failures, width=width))


def _emit(examination: "Examination", settings: Settings, *, failures: bool) -> None:
    from harness.conformance.report.document import document

    entire = document(examination, only_failures=failures, every_transcript=settings.verbose > 0)
    emit(settings.output, entire, Table((), ()))


def _print_catalogue(options: ConformanceOptions, settings: Settings) -> None:
    from harness.conformance.report.listing import catalogue_document, checks_table, unchecked_table
    from harness.conformance.sentences import load

    checks, sentences = options.checks(), load().values()
    emit(settings.output, catalogue_document(checks, sentences), checks_table(checks))
    if settings.is_table and not options.ids:
        click.echo()
        emit(settings.output, None, unchecked_table(sentences))
