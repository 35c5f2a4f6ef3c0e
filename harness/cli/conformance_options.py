"""Common options of `cni-harness conformance`'s forms: which plugins are examined, by which checks, and how."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from harness.cli.options import EXECUTABLE, Settings, complete_network, say

if TYPE_CHECKING:
    from harness.conformance.catalogue import Check
    from harness.conformance.finding import Finding
    from harness.conformance.run import Extent
    from harness.conformance.survey import Survey
    from harness.libcni.networks import NetworkList

__all__ = ["FILE", "ConformanceOptions", "survey_options"]

FILE: Final = click.Path(dir_okay=False, path_type=Path)
_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_PROFILES: Final = ("interface", "chained", "ipam")
_ERASE: Final = "\r\x1b[K"


def _complete_check(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    from harness.conformance.catalogue import checks

    return [check.id for check in checks() if check.id.startswith(incomplete)]


_number: Final = partial(click.option, type=click.IntRange(min=1), show_default=True, metavar="N")
_several: Final = partial(click.option, multiple=True)
_OPTIONS: Final = (
    _several("--conf", "confs", type=FILE, metavar="FILE", help="A network list; once for each."),
    _several(
        "--network",
        "names",
        metavar="NAME",
        shell_complete=complete_network,
        help="Without --conf: this network of the folder of lists; may be repeated.  [default: the first]",
    ),
    _several(
        "--plugin",
        "plugins",
        metavar="TYPE",
        help="Only this plugin of the lists; may be repeated.  [default: all of them, and their IPAM plugins]",
    ),
    click.option("--profile", type=click.Choice(_PROFILES), help="The kind of the plugins.  [default: found out]"),
    _several(
        "--check",
        "ids",
        metavar="ID",
        shell_complete=_complete_check,
        help="Only this check; may be repeated.",
    ),
    click.option(
        "--prepare",
        "preparation",
        type=EXECUTABLE,
        metavar="FILE",
        help="An executable that prepares each node for the plugins, as root.",
    ),
    _several(
        "--watch",
        "watched",
        type=_FOLDER,
        metavar="DIR",
        help="A folder where the plugin keeps files, which it may not leave there; may be repeated.",
    ),
    _number("--jobs", default=1, help="How many checks at a time, each on a node of its own."),
    _number("--repeat", default=1, help="How often each check runs, to find what fails only sometimes."),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=30.0,
        show_default=True,
        metavar="S",
        help="How long one execution of a plugin may take, in seconds.",
    ),
    click.option(
        "--chaos", is_flag=True, help="Kill each plugin at many points of its ADD, not at a few (killed-add)."
    ),
    _number("--points", default=200, help="With --chaos: at how many points."),
)


@dataclass(frozen=True)
class ConformanceOptions:
    """The values of these options."""

    confs: tuple[Path, ...]
    names: tuple[str, ...]
    plugins: tuple[str, ...]
    profile: str | None
    ids: tuple[str, ...]
    preparation: Path | None
    watched: tuple[Path, ...]
    jobs: int
    repeat: int
    timeout: float
    chaos: bool
    points: int

    def checks(self) -> "list[Check]":
        """Return the selected checks, in the order of the catalogue. Raises UsageError."""
        from harness.conformance.catalogue import checks

        known = checks()
        _demand_known("--check", self.ids, [check.id for check in known], "cni-harness conformance --list")
        return [
            check
            for check in known
            if (not self.ids or check.id in self.ids) and (self.profile is None or self.profile in check.profiles)
        ]

    @contextmanager
    def survey(self, settings: Settings) -> "Iterator[Survey]":
        """Yield the survey, with its progress on a terminal, in a line that the end of the block erases.

        Raises UsageError, NetworkError.
        """
        from harness.conformance.profile import Profile
        from harness.conformance.subject import subjects_of
        from harness.conformance.survey import Survey

        if self.watched and self.jobs > 1:
            raise click.UsageError("--watch with --jobs: checks that run at once would see each other's files")
        profile = Profile(self.profile) if self.profile else None
        networks = self._networks(settings)
        there = [subject.type for network in networks for subject in subjects_of(network, (), profile=profile)]
        _demand_known("--plugin", self.plugins, there)
        try:
            yield Survey(
                networks=networks,
                checks=self.checks(),
                state_dir=settings.state_dir,
                extent=self._extent(),
                plugins=self.plugins,
                profile=profile,
                jobs=self.jobs,
                repeat=self.repeat,
                progress=_show,
                remark=_remark,
            )
        finally:
            _write_line("")

    def _networks(self, settings: Settings) -> "list[NetworkList]":
        from harness.cli.defaults import select_networks
        from harness.libcni.networks import read_network_file

        if self.confs and self.names:
            raise click.UsageError("--conf and --network: a file has its networks' names in it")
        return [read_network_file(path) for path in self.confs] or select_networks(settings, self.names)

    def _extent(self) -> "Extent":
        from harness.conformance.run import Extent

        extent = Extent(self.timeout, tuple(folder.absolute() for folder in self.watched), self.preparation)
        return replace(extent, kills=self.points, killers=self.jobs) if self.chaos else extent


def survey_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, which gets them as `options`."""

    @wraps(command)
    def collected(*args: object, **given: object) -> object:
        values: dict[str, Any] = {field.name: given.pop(field.name) for field in fields(ConformanceOptions)}
        return command(*args, options=ConformanceOptions(**values), **given)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected


def _show(finding: "Finding", done: int, total: int) -> None:
    _write_line(f"{finding.subject}: {done}/{total} {finding.check.id} {finding.outcome}")


def _remark(message: str) -> None:
    _write_line("")
    say(message)


def _write_line(text: str) -> None:
    """Replace the line of progress, if stderr is a terminal."""
    if sys.stderr.isatty():
        click.echo(f"{_ERASE}{text}", nl=False, err=True)


def _demand_known(option: str, given: tuple[str, ...], known: list[str], where: str = "") -> None:
    from difflib import get_close_matches

    for name in given:
        if name not in known:
            close = get_close_matches(name, known) or ([] if where else list(dict.fromkeys(known)))
            listed = f"; there is {', '.join(close)}" if close else f"; see `{where}`" if where else ""
            raise click.UsageError(f"{option} {name}: no such {option.removeprefix('--')}{listed}")
