"""The options of `cni-harness conformance` about failures that a maintainer knows."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from harness.conformance.finding import Finding
    from harness.conformance.known_failures import KnownFailures

_FILE: Final = click.Path(dir_okay=False, path_type=Path)


def known_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --known-failures and --save-known to a command."""
    command = click.option(
        "--save-known",
        type=_FILE,
        metavar="FILE",
        help="Write the failures of this run into a file for --known-failures.",
    )(command)
    return click.option(
        "--known-failures",
        type=_FILE,
        metavar="FILE",
        help="Failures that do not count: lines with a plugin, a check, and behind # the reason.",
    )(command)


def read_known(path: Path | None) -> "KnownFailures":
    """Read the file of known failures; without one, nothing is known. Raises ClickException."""
    from harness.conformance.catalogue import checks
    from harness.conformance.known_failures import KnownFailures, KnownFailuresError

    if path is None:
        return KnownFailures(Path(), ())
    try:
        return KnownFailures.read(path, [check.id for check in checks()])
    except KnownFailuresError as error:
        raise click.UsageError(f"--known-failures {error}") from None


def demand_writable(path: Path | None) -> None:
    """Make the folder of a file to be written; an unwritable one is an error before the checks. Raises OSError."""
    from harness.cli.conformance_reports import writable_folder

    if path is not None:
        writable_folder(path.parent)


def judged(finding: "Finding", known: "KnownFailures") -> "Finding":
    """Return the finding with the reason why it is known; the node of a known failure does not stay."""
    from harness.conformance.kept_node import without_node

    marked = known.marked(finding)
    return without_node(marked) if marked.known else marked


def save_known_failures(findings: Sequence["Finding"], path: Path | None) -> None:
    """Write a file that knows all failures among these findings. Raises OSError."""
    from harness.conformance.known_failures import known_failures_file
    from harness.files import write_atomically

    if path is not None:
        write_atomically(path, known_failures_file(findings).encode())
