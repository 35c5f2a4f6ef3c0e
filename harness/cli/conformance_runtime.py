"""`cni-harness conformance runtime`: does a runtime do what the specification says?"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from harness.cli.conformance_options import emit_tables, fail_on_option, failures_option, list_option, threshold_of
from harness.cli.options import Settings, needs_root, verb
from harness.output import TextTable, emit, report_width, say, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.conformance.runtime_checks.catalogue import RuntimeCheck
    from harness.conformance.runtime_checks.networks import RecordedNetwork
    from harness.conformance.runtime_checks.records import Records

_FOLDER: Final = click.Path(file_okay=False, path_type=Path, resolve_path=True)


@verb(
    "runtime",
    examples={
        "conformance runtime --runtime libcni": "Examine this project's own runtime",
        "conformance runtime --judge records": "Judge another one by its records",
    },
    makes_folders=True,
)
@click.option(
    "--install",
    "installed",
    type=_FOLDER,
    metavar="DIR",
    help="Write witnesses into --bin-dir and their lists into --conf-dir; they record into this folder.",
)
@click.option("--judge", "judged", type=_FOLDER, metavar="DIR", help="Judge the runtime by the records in this folder.")
@click.option("--runtime", "own", type=click.Choice(["libcni"]), help="Examine this project's own libcni now.")
@list_option
@click.option(
    "--network",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this list of witnesses; may be repeated.  [default: all valid ones]",
)
@click.option("--check", "ids", multiple=True, metavar="ID", help="Only this check; may be repeated.")
@click.option(
    "--speaks", default="", metavar="VERSION", help="With --judge: the highest version that the runtime speaks."
)
@fail_on_option
@failures_option
def runtime(
    settings: Settings,
    *,
    installed: Path | None,
    judged: Path | None,
    own: str | None,
    is_list: bool,
    names: tuple[str, ...],
    ids: tuple[str, ...],
    speaks: str,
    fail_on: str,
    failures: bool,
) -> int:
    """Hold a container runtime to CNI 1.1.0: containerd, CRI-O, Podman, cnitool or any other.

    First --install writes witnesses: plugins that record each of their executions, and network lists that use them.
    Then start and remove pods on these networks. At last --judge compares the records with the specification. The exit
    code is 1 if a check fails; --fail-on tells which violations are failures. docs/conformance-of-runtimes.md has the
    steps for each runtime.
    """
    given = [each for each in (installed, judged, own, is_list) if each]
    if len(given) != 1:
        raise click.UsageError("one of --install, --judge, --runtime and --list is wanted")
    checks = _checks(ids)
    if is_list:
        _print_catalogue(checks, settings, is_whole=not ids)
        return 0
    if installed is not None:
        _install(installed, settings, _networks(names))
        return 0
    return _judge(_records(judged, settings, names, speaks), checks, settings, fail_on=fail_on, failures=failures)


def _records(judged: Path | None, settings: Settings, names: tuple[str, ...], speaks: str) -> "Records":
    from harness.conformance.runtime_checks.records import RecordError, read_records

    try:
        if judged is not None:
            return read_records(judged, speaks=speaks)
        from harness.conformance.runtime_checks.driver import drive_libcni
        from harness.conformance.runtime_checks.networks import NETWORKS

        needs_root("conformance runtime --runtime libcni", "makes network namespaces")
        return drive_libcni(settings.state_dir, _networks(names) if names else NETWORKS)
    except RecordError as error:
        raise click.ClickException(str(error)) from None


def _judge(
    records: "Records", checks: "Sequence[RuntimeCheck]", settings: Settings, *, fail_on: str, failures: bool
) -> int:
    from harness.conformance.finding import Outcome
    from harness.conformance.runtime_checks.catalogue import judge
    from harness.conformance.runtime_checks.report import document_of_runtime, report_on_runtime

    findings = judge(records, checks, threshold_of(fail_on))
    if settings.is_table:
        report = report_on_runtime(findings, every=settings.verbose > 0, only_failures=failures, width=report_width())
        write(report, styled=True)
    else:
        emit(settings.output, document_of_runtime(findings, only_failures=failures), TextTable((), ()))
    return 1 if any(finding.outcome is Outcome.FAIL for finding in findings) else 0


def _install(records: Path, settings: Settings, networks: "Sequence[RecordedNetwork]") -> None:
    from harness.conformance.runtime_checks.recorder import install

    if len(settings.bin_dirs) != 1 or settings.conf_dir is None:
        raise click.UsageError("--install needs one folder for executables (--bin-dir), and one for lists (--conf-dir)")
    written = install(records, settings.bin_dirs[0], settings.conf_dir, networks)
    document = {"records": str(records), "files": [str(path) for path in written]}
    emit(settings.output, document, TextTable(("FILE",), [[str(path)] for path in written]))
    say(f"witnesses record into {records}")


def _networks(names: tuple[str, ...]) -> "list[RecordedNetwork]":
    from harness.conformance.runtime_checks.networks import NETWORKS

    known = {network.name: network for network in NETWORKS}
    for name in names:
        if name not in known:
            raise click.UsageError(f"--network {name}: there is {', '.join(known)}")
    return [known[name] for name in names] or [network for network in NETWORKS if network.valid]


def _checks(ids: tuple[str, ...]) -> "list[RuntimeCheck]":
    from harness.conformance.runtime_checks.catalogue import runtime_checks

    checks = runtime_checks()
    for wanted in ids:
        if wanted not in [check.id for check in checks]:
            raise click.UsageError(f"--check {wanted}: see `cni-harness conformance runtime --list`")
    return [check for check in checks if not ids or check.id in ids]


def _print_catalogue(checks: "Sequence[RuntimeCheck]", settings: Settings, *, is_whole: bool) -> None:
    from harness.conformance.report.listing import unchecked_table
    from harness.conformance.runtime_checks.report import catalogue_of_runtimes, catalogue_table
    from harness.conformance.sentences import load

    sentences = list(load().values())
    tables = [catalogue_table(checks), *([unchecked_table(sentences, "runtimes")] if is_whole else [])]
    emit_tables(settings, catalogue_of_runtimes(checks, sentences), tables)
