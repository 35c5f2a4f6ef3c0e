"""`cni-harness conformance`: does a plugin do what the specification says?"""

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from harness.cli.conformance_matrix import matrix
from harness.cli.conformance_options import (
    FILE,
    ConformanceOptions,
    conformance_options,
    emit_tables,
    failures_option,
    list_option,
)
from harness.cli.conformance_run import conformance_run, examine_suite, stopped_by_signals, writable_folder
from harness.cli.conformance_runtime import runtime
from harness.cli.options import Settings, needs_root, verb
from harness.cli.privileges import obtain_privileges
from harness.cli.verb_help import VerbGroup
from harness.output import TextTable, emit, report_width, say, write

if TYPE_CHECKING:
    from harness.conformance.finding import Finding
    from harness.conformance.known_failures import KnownFailures
    from harness.conformance.reproduce import Arguments
    from harness.libcni.networks import NetworkList

ENDINGS: Final = (".html", ".json", ".md", ".svg", ".tap", ".xml", ".yaml")
"""Of the names of reports: those of harness.conformance.report.formats, which is slow to import."""


def _with_known_ending(ctx: click.Context, param: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    for path in paths:
        if path.suffix.lower() not in ENDINGS:
            raise click.BadParameter(f"{str(path)!r} ends with none of {', '.join(ENDINGS)}", ctx, param)
    return paths


@verb(
    "conformance",
    examples={
        "conformance --list": "Show all checks, and the sentences that they are for",
        "conformance --bin-dir build --conf my.conflist --report run.html": "Examine the plugins of a list",
        "conformance --conf my.conflist --check 'del-*'": "Run a part of the checks",
    },
    cls=VerbGroup,
    invoke_without_command=True,
)
@list_option
@click.option(
    "--report",
    "reports",
    type=FILE,
    multiple=True,
    callback=_with_known_ending,
    metavar="FILE",
    help="Also write a report; the ending is .html, .json, .md, .svg (a badge), .tap, .xml (JUnit) or .yaml (short)."
    "  May be repeated.",
)
@click.option("--junit", type=FILE, metavar="FILE", help="As --report, JUnit's XML in any file.")
@click.option("--build", default="", metavar="TEXT", help="How the plugins were built, for those who read a report.")
@failures_option
@click.option(
    "--known-failures",
    type=FILE,
    metavar="FILE",
    help="Failures that do not count: lines with a plugin, a check, and behind # the reason.",
)
@click.option(
    "--save-known", type=FILE, metavar="FILE", help="Write the failures of this run into a file for --known-failures."
)
@click.option("--fail-fast", is_flag=True, help="End the run at the first failure that is not known.")
@click.option("--keep", is_flag=True, help="Keep the node of each check that fails, and show how to enter it.")
@conformance_options
@click.pass_context
def command(
    ctx: click.Context,
    settings: Settings,
    *,
    options: ConformanceOptions,
    is_list: bool,
    reports: tuple[Path, ...],
    junit: Path | None,
    build: str,
    failures: bool,
    known_failures: Path | None,
    save_known: Path | None,
    fail_fast: bool,
    keep: bool,
) -> int:
    """Hold plugins, in any language, to CNI 1.1.0: checks for the sentences that require something of a plugin.

    Each plugin of the network list is executed as runtimes do, and in worse ways, on temporary nodes. Then its output
    and its leftovers are examined. Failures and warnings are shown, with -v also the other checks. The exit code is 1
    if a check fails; --fail-on tells which violations are failures. docs/conformance-report.md explains the report.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_options(ctx)
        return 0
    if is_list:
        _print_catalogue(options, settings)
        return 0
    from harness.conformance.finding import is_red
    from harness.conformance.known_failures import known_failures_file
    from harness.files import write_atomically

    began = datetime.now().astimezone()
    settings.announces = True
    obtain_privileges("conformance", keeps=keep)
    known = _read_known(known_failures)
    files = {path: path.suffix for path in reports} | ({junit: ".xml"} if junit else {})
    running = conformance_run(options, settings, known=known, fail_fast=fail_fast, keeps=keep)
    with running as run, _folders(settings, run.networks) as bin_dirs:
        for path in filter(None, (*reports, junit, save_known)):
            writable_folder(path.parent)
        with stopped_by_signals(run.options.stop) as signals:
            made = examine_suite(run, bin_dirs, signals)
    findings = made.findings
    if not findings and not made.cut_short:
        raise click.UsageError("none of these checks is for any of these plugins")
    arguments = options.arguments(ctx, settings.bin_dirs)
    examination = made.examination(run, began, arguments, build) if files or not settings.is_table else None
    unwritten: list[str] = []
    if examination and files:
        from harness.conformance.report.formats import write_reports  # it takes long to import

        unwritten = write_reports(examination, files)
    if save_known is not None:
        write_atomically(save_known, known_failures_file(findings).encode())
    if findings and settings.is_table:
        from harness.conformance.report.text import report, summary

        written = [file for file in (*reports, junit, save_known) if file]
        every, width = settings.verbose > 0, report_width()
        write(report(findings, arguments, every=every, only_failures=failures, width=width), styled=True)
        summed_up = summary(findings, known=known, cut_short=made.cut_short, files=written, width=width)
        write(f"\n{summed_up}", styled=True)
    elif findings and examination is not None:
        from harness.conformance.report.document import document

        entire = document(examination, only_failures=failures, every_transcript=settings.verbose > 0)
        emit(settings.output, entire, TextTable((), ()))
        _say_besides(findings, known, arguments)
    for message in unwritten:
        say(f"Error: {message}")
    made.pass_on(signals)
    return 1 if is_red(findings) or unwritten else 0


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


def _read_known(path: Path | None) -> "KnownFailures":
    """Read the file of known failures, and warn if another suite wrote it. Raises UsageError."""
    from harness.conformance.catalogue import SUITE_VERSION
    from harness.conformance.checks import all_checks
    from harness.conformance.known_failures import KnownFailures, KnownFailuresError

    try:
        known = KnownFailures.read(path, [check.id for check in all_checks()])
    except KnownFailuresError as error:
        raise click.UsageError(f"--known-failures {error}") from None
    if known.suite_version != SUITE_VERSION:
        say(f"Warning: {path} is of the suite {known.suite_version}; this one, {SUITE_VERSION}, may find more")
    return known


def _say_besides(findings: Sequence["Finding"], known: "KnownFailures", arguments: "Arguments") -> None:
    """Tell people, on stderr: known failures that pass now, and nodes that were kept."""
    from harness.conformance.report.wording import kept_facts

    for line in known.outdated_in_words(findings):
        say(line)
    for finding in findings:
        for name, fact in kept_facts(finding, arguments):
            say(f"{finding.check.id}: {name}: {fact}")


def _print_catalogue(options: ConformanceOptions, settings: Settings) -> None:
    from harness.conformance.report.listing import catalogue_document, checks_table, sections_table, unchecked_table
    from harness.conformance.sentences import load

    checks, sentences = options.checks(), load().values()
    tables = [checks_table(checks), sections_table(checks)]
    if not options.is_selective:
        tables.append(unchecked_table(sentences))
    emit_tables(settings, catalogue_document(checks, sentences), tables)


def _complete_kept(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del param
    from harness.runtime.site import kept_sites

    settings = ctx.find_object(Settings) or Settings()
    return [name for name in kept_sites(settings.state_dir) if name.startswith(incomplete)]


@verb(
    "clean",
    examples={
        "conformance clean": "Remove all nodes that were kept",
        "conformance clean check-1": "Remove one of them",
    },
)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_complete_kept)
def clean(settings: Settings, *, names: tuple[str, ...]) -> None:
    """Remove nodes that --keep left, with their containers and processes: those named, otherwise all."""
    from harness.runtime.site import kept_sites, remove_kept

    needs_root("conformance clean", "removes network namespaces")
    kept = kept_sites(settings.state_dir)
    for name in names:
        if name not in kept:
            listed = f"there is {', '.join(kept)}" if kept else "there is none"
            raise click.UsageError(f"{name}: no node that was kept; {listed}")
    removed = list(names or kept)
    for name in removed:
        remove_kept(name, settings.state_dir)
    settings.emit({"removed": removed}, TextTable(("REMOVED",), [[name] for name in removed]))


@click.command("session", hidden=True)
def session() -> None:
    """Answer questions from standard input until its end: the pytest plugin asks for checks one at a time."""
    from harness.conformance.session import ConformanceSession

    answering = ConformanceSession()
    for line in sys.stdin:
        question = json.loads(line)
        answer: dict[str, object] = {}
        if question["verb"] != "launchers":
            answer = answering.answer(question)
        else:
            from harness.install.files import InstallError, write_launchers

            try:
                write_launchers(Path(question["folder"]))
            except (InstallError, OSError) as error:
                answer = {"error": str(error)}
        write(json.dumps(answer))


for _below in (clean, matrix, runtime, session):
    command.add_command(_below)
