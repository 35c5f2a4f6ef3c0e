"""Common options of `cni-harness conformance`'s forms: which plugins are examined, by which checks, and how."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import click

from harness.cli.options import EXECUTABLE, Settings, complete_network, say

if TYPE_CHECKING:
    from harness.conformance.catalogue import Check
    from harness.conformance.run import Extent
    from harness.conformance.survey import Progress, Scope, Survey
    from harness.libcni.networks import NetworkList

__all__ = ["FILE", "Wanted", "scope_options"]

FILE: Final = click.Path(dir_okay=False, path_type=Path)
_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_PROFILES: Final = ("interface", "chained", "ipam")
_ERASE: Final = "\r\x1b[K"


def _complete_check(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    from harness.conformance.catalogue import checks

    return [check.id for check in checks() if check.id.startswith(incomplete)]


_OPTIONS: Final = (
    click.option("--conf", "confs", multiple=True, type=FILE, metavar="FILE", help="A network list; once for each."),
    click.option(
        "--network",
        "names",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_network,
        help="Without --conf: this network of the folder of lists; may be repeated.  [default: the first]",
    ),
    click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="TYPE",
        help="Only this plugin of the lists; may be repeated.  [default: all of them, and their IPAM plugins]",
    ),
    click.option("--profile", type=click.Choice(_PROFILES), help="The kind of the plugins.  [default: found out]"),
    click.option(
        "--check",
        "ids",
        multiple=True,
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
    click.option(
        "--watch",
        "watched",
        multiple=True,
        type=_FOLDER,
        metavar="DIR",
        help="A folder where the plugin keeps files, which it may not leave there; may be repeated.",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        help="How many checks at a time, each on a node of its own.",
    ),
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
    click.option(
        "--points",
        type=click.IntRange(min=1),
        default=200,
        show_default=True,
        metavar="N",
        help="With --chaos: at how many points.",
    ),
)


@dataclass(frozen=True)
class Wanted:
    """The values of these options."""

    confs: tuple[Path, ...]
    names: tuple[str, ...]
    plugins: tuple[str, ...]
    profile: str | None
    ids: tuple[str, ...]
    preparation: Path | None
    watched: tuple[Path, ...]
    jobs: int
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

    def scope(self, settings: Settings) -> "Scope":
        """Return the plugins and networks to examine. Raises UsageError, NetworkError."""
        from harness.conformance.profile import Profile
        from harness.conformance.survey import Scope

        if self.watched and self.jobs > 1:
            raise click.UsageError("--watch with --jobs: checks that run at once would see each other's files")
        profile = Profile(self.profile) if self.profile else None
        networks = self._networks(settings)
        there = Scope(networks, (), profile=profile).subjects(())
        _demand_known("--plugin", self.plugins, [subject.type for subject in there])
        return Scope(networks, self.checks(), self.plugins, profile)

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

    @contextmanager
    def survey(self, settings: Settings, scope: "Scope") -> "Iterator[Survey]":
        """Yield the survey, with its progress on a terminal. At the end of the block everything is cleaned up."""
        from harness.conformance.survey import Survey

        line = _ProgressLine()
        with line:
            yield Survey(
                scope,
                state_dir=settings.state_dir,
                extent=self._extent(),
                jobs=self.jobs,
                progress=line.show,
                remark=line.remark,
            )


def scope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, which gets them as `wanted`."""

    @wraps(command)
    def collected(*args: object, **options: object) -> object:
        wanted: dict[str, Any] = {field.name: options.pop(field.name) for field in fields(Wanted)}
        return command(*args, wanted=Wanted(**wanted), **options)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected


class _ProgressLine:
    """One line of progress on a terminal, which is erased at the end."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_ERASE)

    def show(self, progress: "Progress") -> None:
        finding = progress.finding
        self._write(f"{_ERASE}{finding.subject}: {progress.done}/{progress.total} {finding.check.id} {finding.outcome}")

    def remark(self, message: str) -> None:
        self._write(_ERASE)
        say(message)

    def _write(self, text: str) -> None:
        if self._is_shown:
            click.echo(text, nl=False, err=True)


def _demand_known(option: str, given: tuple[str, ...], known: list[str], where: str = "") -> None:
    from difflib import get_close_matches

    for name in given:
        if name not in known:
            close = get_close_matches(name, known) or ([] if where else list(dict.fromkeys(known)))
            listed = f"; there is {', '.join(close)}" if close else f"; see `{where}`" if where else ""
            raise click.UsageError(f"{option} {name}: no such {option.removeprefix('--')}{listed}")
