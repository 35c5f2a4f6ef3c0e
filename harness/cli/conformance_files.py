"""The files of `cni-harness conformance`: reports that it writes, and failures that a maintainer knows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

import click

from harness.output import message_of, say

if TYPE_CHECKING:
    from harness.conformance.engine.examination import Examination
    from harness.conformance.finding import Finding
    from harness.conformance.known_failures import KnownFailures

FILE: Final = click.Path(dir_okay=False, path_type=Path)
ENDINGS: Final = (".html", ".json", ".md", ".svg", ".tap", ".xml", ".yaml")
"""Of the names of reports: those of harness.conformance.report.formats, which is slow to import."""


def _with_known_ending(ctx: click.Context, param: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    for path in paths:
        if path.suffix.lower() not in ENDINGS:
            raise click.BadParameter(f"{str(path)!r} ends with none of {', '.join(ENDINGS)}", ctx, param)
    return paths


report_option: Final = click.option(
    "--report",
    "reports",
    type=FILE,
    multiple=True,
    callback=_with_known_ending,
    metavar="FILE",
    help="Also write a report; the ending is .html, .json, .md, .svg (a badge), .tap, .xml (JUnit) or .yaml (short)."
    "  May be repeated.",
)
junit_option: Final = click.option("--junit", type=FILE, metavar="FILE", help="As --report, JUnit's XML in any file.")
known_failures_option: Final = click.option(
    "--known-failures",
    type=FILE,
    metavar="FILE",
    help="Failures that do not count: lines with a plugin, a check, and behind # the reason.",
)
save_known_option: Final = click.option(
    "--save-known", type=FILE, metavar="FILE", help="Write the failures of this run into a file for --known-failures."
)


@dataclass(frozen=True)
class ReportFiles:
    """The files to write. Those of `reports` have the form that their endings name; `junit` is JUnit's XML."""

    reports: Sequence[Path]
    junit: Path | None

    def __bool__(self) -> bool:
        """Whether any file is wanted."""
        return bool(self.reports) or self.junit is not None

    def demand_writable(self) -> None:
        """Make the folders; an unwritable one is an error before the checks, not after them. Raises OSError."""
        for path in self._paths():
            writable_folder(path.parent)

    def write(self, examination: "Examination") -> list[str]:
        """Write every file, and return the messages of those that could not be written."""
        from harness.conformance.report.formats import write_report
        from harness.conformance.report.junit import junit
        from harness.files import write_atomically

        errors = []
        for path in self._paths():
            try:
                if path == self.junit:
                    write_atomically(path, junit(examination))
                else:
                    write_report(examination, path)
            except OSError as error:
                errors.append(f"the report {path} is missing: {message_of(error)}")
        return errors

    def _paths(self) -> Iterator[Path]:
        yield from self.reports
        if self.junit is not None:
            yield self.junit


def writable_folder(folder: Path) -> None:
    """Make a folder and a file in it, which is removed. Raises OSError, which names the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder.absolute())) from error


def read_known(path: Path | None) -> "KnownFailures":
    """Read the file of known failures, and warn if another suite wrote it; without a file, nothing is known.

    Raises ClickException.
    """
    from harness.conformance.catalogue import SUITE_VERSION
    from harness.conformance.checks import all_checks
    from harness.conformance.known_failures import KnownFailures, KnownFailuresError

    if path is None:
        return KnownFailures(Path(), ())
    try:
        known = KnownFailures.read(path, [check.id for check in all_checks()])
    except KnownFailuresError as error:
        raise click.UsageError(f"--known-failures {error}") from None
    if known.suite_version != SUITE_VERSION:
        say(f"Warning: {path} is of the suite {known.suite_version}; this one, {SUITE_VERSION}, may find more")
    return known


def judged(finding: "Finding", known: "KnownFailures") -> "Finding":
    """Return the finding with the reason why it is known; the node of a known failure does not stay."""
    from harness.conformance.engine.attempt import without_node

    marked = known.marked(finding)
    return without_node(marked) if marked.known else marked


def save_known_failures(findings: Sequence["Finding"], path: Path | None) -> None:
    """Write a file that knows all failures among these findings. Raises OSError."""
    from harness.conformance.known_failures import known_failures_file
    from harness.files import write_atomically

    if path is not None:
        write_atomically(path, known_failures_file(findings).encode())
