"""Options that `cni-harness conformance` and `matrix` share: which plugins are examined, by which checks, and how."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from harness.cli.conformance_files import FILE
from harness.cli.conformance_run import Progress
from harness.cli.option_types import EXECUTABLE, Duration
from harness.cli.options import Settings, complete_network

if TYPE_CHECKING:
    from harness.conformance.catalogue import Check
    from harness.conformance.check_options import CheckOptions
    from harness.conformance.engine.run import ConformanceRun
    from harness.conformance.finding import Finding
    from harness.conformance.reproduce import Arguments
    from harness.conformance.threshold import Threshold
    from harness.libcni.networks import NetworkList

_LEVELS: Final = ("MUST", "SHOULD", "MAY", "CONVENTION")
_FAIL_ON: Final = ("MUST", "works", "SHOULD", "MAY", "CONVENTION")
_LISTING: Final = "cni-harness conformance --list"

_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_PROFILES: Final = ("interface", "chained", "ipam")


def _complete_check(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    from harness.conformance.checks import all_checks

    return [check.id for check in all_checks() if check.id.startswith(incomplete)]


def _complete_section(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    from harness.conformance.checks import all_checks
    from harness.conformance.selection import section_names

    names = section_names(all_checks())
    chapters = {name.partition(".")[0] for name in names}
    wanted = incomplete.lower()
    return [name for name in sorted({*names, *chapters}) if name.lower().startswith(wanted)]


fail_on_option: Final = click.option(
    "--fail-on",
    type=click.Choice(_FAIL_ON),
    default="works",
    show_default=True,
    help="Which violations fail, the others warn: works has each MUST, and each check whose failure has an effect.",
)
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
        help="Only this check, or those that match a pattern such as 'del-*'; may be repeated.",
    ),
    _several(
        "--skip",
        metavar="ID",
        shell_complete=_complete_check,
        help="Not this check, nor those that match a pattern; may be repeated.",
    ),
    click.option(
        "--level",
        type=click.Choice(_LEVELS),
        help="Only checks of this level, and of the more binding ones before it.",
    ),
    fail_on_option,
    _several(
        "--section",
        "sections",
        metavar="S",
        shell_complete=_complete_section,
        help="Only checks of this section, for example 2.ADD, 5 or runtimes.containerd; may be repeated.",
    ),
    click.option(
        "--prepare",
        "preparation",
        type=EXECUTABLE,
        metavar="FILE",
        help="An executable that prepares each node for the plugins, as root.",
    ),
    click.option(
        "--pod-interface",
        is_flag=True,
        help="For IPAM plugins that send through it, as dhcp: each container has its interface, and the node pods0.",
    ),
    click.option(
        "--traffic",
        is_flag=True,
        help="Have the node forward packets between two machines during each check: they may not stop.",
    ),
    _several(
        "--watch",
        "watched",
        type=_FOLDER,
        metavar="DIR",
        help="A folder where the plugin keeps files, which it may not leave there; may be repeated.",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many checks at a time, each on a node of its own.  [default: one for each processor; 1 with --watch]",
    ),
    _number("--repeat", default=1, help="How often each check runs, to find what fails only sometimes."),
    click.option(
        "--timeout",
        type=Duration(positive=True),
        default="30s",
        show_default=True,
        metavar="TIME",
        help="How long one execution of a plugin may take.",
    ),
    click.option(
        "--chaos", is_flag=True, help="Kill each plugin at many points of its ADD, not at a few (killed-add)."
    ),
    _number("--points", default=200, help="With --chaos: at how many points."),
)


_REPEATED: Final = frozenset(
    {"fail_on", "profile", "repeat", "preparation", "pod_interface", "traffic", "watched", "timeout", "chaos", "points"}
)
"""The options that a check depends on, besides the plugins' folders, the network and the plugin."""


def selected(ids: Sequence[str], skip: Sequence[str], level: str | None, sections: Sequence[str]) -> "list[Check]":
    """Return the chosen checks, in the order of the catalogue. Raises UsageError."""
    from harness.conformance.checks import all_checks
    from harness.conformance.selection import Selection, SelectionError
    from harness.conformance.sentences import Level

    selection = Selection(only=ids, skip=skip, level=Level(level) if level else None, sections=sections)
    try:
        return selection.of(all_checks())
    except SelectionError as error:
        where = "" if error.option == "section" else _LISTING
        raise _unknown(f"--{error.option}", error.given, error.known, where) from None


def threshold_of(fail_on: str, level: str | None = None) -> "Threshold":
    """Return which failures count, by the options --fail-on and --level."""
    from harness.conformance.sentences import Level
    from harness.conformance.threshold import FailOn, Threshold

    return Threshold(FailOn(fail_on), Level(level or Level.CONVENTION))


def demand_known(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError, which names the possible values, if one that is given is not known."""
    for name in given:
        if name not in known:
            raise _unknown(option, name, known)


def _unknown(option: str, name: str, known: Sequence[str], where: str = "") -> click.UsageError:
    """Return the error about a value that does not exist; without `where`, the place of a list, it names all."""
    from difflib import get_close_matches

    close = get_close_matches(name, known) or ([] if where else list(dict.fromkeys(known)))
    listed = f"; there is {', '.join(close)}" if close else f"; see `{where}`" if where else ""
    kind = "check" if option == "--skip" else option.removeprefix("--")
    return click.UsageError(f"{option} {name}: no such {kind}{listed}")


@dataclass(frozen=True)
class ConformanceOptions:
    """The values of these options."""

    confs: tuple[Path, ...]
    names: tuple[str, ...]
    plugins: tuple[str, ...]
    profile: str | None
    ids: tuple[str, ...]
    skip: tuple[str, ...]
    level: str | None
    fail_on: str
    sections: tuple[str, ...]
    preparation: Path | None
    pod_interface: bool
    traffic: bool
    watched: tuple[Path, ...]
    jobs: int | None
    repeat: int
    timeout: float
    chaos: bool
    points: int

    @property
    def is_selective(self) -> bool:
        """Whether checks are chosen, by other than their profile."""
        return bool(self.ids or self.skip or self.level or self.sections)

    def checks(self) -> "list[Check]":
        """Return the selected checks, in the order of the catalogue. Raises UsageError."""
        chosen = selected(self.ids, self.skip, self.level, self.sections)
        return [check for check in chosen if self.profile is None or self.profile in check.profiles]

    def arguments(self, ctx: click.Context, bin_dirs: Sequence[Path]) -> "Arguments":
        """Return the arguments with which a finding can be repeated: those on the command line, with absolute paths."""
        from harness.conformance.reproduce import Arguments, this_program

        words: list[str] = []
        for option in ctx.command.params:
            name = option.name or ""
            if name in _REPEATED and ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
                values = ctx.params[name] if option.multiple else [ctx.params[name]]
                words += [word for value in values for word in _words(option, value)]
        return Arguments(program=this_program(), bin_dirs=tuple(bin_dirs), options=tuple(words))

    @contextmanager
    def run(
        self,
        settings: Settings,
        *,
        judge: "Callable[[Finding], Finding]" = lambda finding: finding,
        fail_fast: bool = False,
        keeps: bool = False,
    ) -> "Iterator[ConformanceRun]":
        """Yield the run, which tells its progress on stderr.

        `judge` gets each finding, and returns it, marked if it is known. With `fail_fast` the first red one
        ends the run. `keeps` tells whether the nodes of failed checks stay. Raises UsageError, NetworkError.
        """
        from harness.conformance.checks import all_checks
        from harness.conformance.engine.run import ConformanceRun
        from harness.conformance.subject import Profile, subjects_of

        jobs = self.jobs or (1 if self.watched else os.cpu_count() or 1)
        if self.watched and jobs > 1:
            raise click.UsageError("--watch with --jobs: checks that run at once would see each other's files")
        profile = Profile(self.profile) if self.profile else None
        networks = self._networks(settings)
        there = [subject.type for network in networks for subject in subjects_of(network, (), profile=profile)]
        demand_known("--plugin", self.plugins, there)
        options = replace(self._options(jobs), keeps=keeps)
        with Progress() as progress:
            halting = Lock()

            def tell(finding: "Finding", done: int, total: int) -> None:
                progress.show(finding, done, total)
                with halting:
                    if fail_fast and finding.is_red and not options.stop.is_requested:
                        options.stop.ask()

            yield ConformanceRun(
                networks=networks,
                checks=self.checks(),
                catalogue=all_checks(),
                state_dir=settings.state_dir,
                options=options,
                plugins=self.plugins,
                profile=profile,
                jobs=jobs,
                repeat=self.repeat,
                judge=judge,
                progress=tell,
                remark=progress.remark,
            )

    def _networks(self, settings: Settings) -> "list[NetworkList]":
        from harness.cli.defaults import select_networks
        from harness.libcni.networks import read_network_file

        if self.confs and self.names:
            raise click.UsageError("--conf and --network: a file has its networks' names in it")
        return [read_network_file(path) for path in self.confs] or select_networks(settings, self.names)

    def _options(self, jobs: int) -> "CheckOptions":
        from harness.conformance.check_options import CheckOptions

        watched = tuple(folder.absolute() for folder in self.watched)
        threshold = threshold_of(self.fail_on, self.level)
        options = CheckOptions(
            self.timeout,
            watched,
            self.preparation,
            threshold=threshold,
            traffic=self.traffic,
            pod_interface=self.pod_interface,
        )
        return replace(options, kills=self.points, killers=jobs) if self.chaos else options


def _words(option: click.Parameter, value: object) -> list[str]:
    """Return an option with one value, as on a command line."""
    name = max(option.opts, key=len)
    if isinstance(option, click.Option) and option.is_flag:
        return [name] if value else []
    text = value.absolute() if isinstance(value, Path) else f"{value:g}" if isinstance(value, float) else value
    return [name, str(text)]


def conformance_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, which gets them as `options`."""

    @wraps(command)
    def collected(*args: object, **given: object) -> object:
        values: dict[str, Any] = {field.name: given.pop(field.name) for field in fields(ConformanceOptions)}
        return command(*args, options=ConformanceOptions(**values), **given)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected
