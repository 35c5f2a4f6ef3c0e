"""The options of `cni-harness conformance` and `matrix`: which plugins are examined, by which checks, and how."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from harness.cli.option_types import EXECUTABLE, Duration
from harness.cli.options import Settings, complete_network
from harness.output import TextTable, emit, write

if TYPE_CHECKING:
    from harness.conformance.catalogue import Check
    from harness.conformance.reproduce import Arguments
    from harness.conformance.threshold import Threshold

FILE: Final = click.Path(dir_okay=False, path_type=Path)
_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_LISTING: Final = "cni-harness conformance --list"
_FAIL_ON: Final[Mapping[str, Any]] = {
    "type": click.Choice(("MUST", "works", "SHOULD", "MAY", "CONVENTION")),
    "default": "works",
    "show_default": True,
    "help": "Which violations fail, the others warn: works has each MUST, and each check whose failure has an effect.",
}

# For runtimes, too.
fail_on_option: Final = click.option("--fail-on", **_FAIL_ON)
list_option: Final = click.option(
    "--list", "is_list", is_flag=True, help="Print the catalogue of checks, and execute nothing."
)
failures_option: Final = click.option("--failures", is_flag=True, help="Show only failures.")


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


def _option(name: str, *, decides: bool = False, **settings: Any) -> Any:  # noqa: ANN401 -- click's own
    """Return the field for an option's value. The option `decides` if the outcome of a check depends on it."""
    return field(metadata={"name": name, "decides": decides, "settings": settings})


_several: Final = partial(_option, multiple=True)
_flag: Final = partial(_option, decides=True, is_flag=True)
_number: Final = partial(_option, decides=True, type=click.IntRange(min=1), show_default=True, metavar="N")


@dataclass(frozen=True)
class ConformanceOptions:
    """The values of the options, each described where its value is."""

    confs: tuple[Path, ...] = _several("--conf", type=FILE, metavar="FILE", help="A network list; once for each.")
    names: tuple[str, ...] = _several(
        "--network",
        metavar="NAME",
        shell_complete=complete_network,
        help="Without --conf: this network of the folder of lists; may be repeated.  [default: the first]",
    )
    plugins: tuple[str, ...] = _several(
        "--plugin",
        metavar="TYPE",
        help="Only this plugin of the lists; may be repeated.  [default: all of them, and their IPAM plugins]",
    )
    profile: str | None = _option(
        "--profile",
        decides=True,
        type=click.Choice(("interface", "chained", "ipam")),
        help="The kind of the plugins.  [default: found out]",
    )
    ids: tuple[str, ...] = _several(
        "--check",
        metavar="ID",
        shell_complete=_complete_check,
        help="Only this check, or those that match a pattern such as 'del-*'; may be repeated.",
    )
    skip: tuple[str, ...] = _several(
        "--skip",
        metavar="ID",
        shell_complete=_complete_check,
        help="Not this check, nor those that match a pattern; may be repeated.",
    )
    level: str | None = _option(
        "--level",
        type=click.Choice(("MUST", "SHOULD", "MAY", "CONVENTION")),
        help="Only checks of this level, and of the more binding ones before it.",
    )
    fail_on: str = _option("--fail-on", decides=True, **_FAIL_ON)
    sections: tuple[str, ...] = _several(
        "--section",
        metavar="S",
        shell_complete=_complete_section,
        help="Only checks of this section, for example 2.ADD, 5 or runtimes.containerd; may be repeated.",
    )
    preparation: Path | None = _option(
        "--prepare",
        decides=True,
        type=EXECUTABLE,
        metavar="FILE",
        help="An executable that prepares each node for the plugins, as root.",
    )
    pod_interface: bool = _flag(
        "--pod-interface",
        help="For IPAM plugins that send through it, as dhcp: each container has its interface, and the node pods0.",
    )
    traffic: bool = _flag(
        "--traffic",
        help="Have the node forward packets between two machines during each check: they may not stop.",
    )
    watched: tuple[Path, ...] = _several(
        "--watch",
        decides=True,
        type=_FOLDER,
        metavar="DIR",
        help="A folder where the plugin keeps files, which it may not leave there; may be repeated.",
    )
    jobs: int | None = _number(
        "--jobs",
        decides=False,
        show_default=False,
        help="How many checks at a time, each on a node of its own.  [default: two for each processor; 1 with --watch]",
    )
    repeat: int = _number("--repeat", default=1, help="How often each check runs, to find what fails only sometimes.")
    timeout: float = _option(
        "--timeout",
        decides=True,
        type=Duration(positive=True),
        default="30s",
        show_default=True,
        metavar="TIME",
        help="How long one execution of a plugin may take.",
    )
    chaos: bool = _flag("--chaos", help="Kill each plugin at many points of its ADD, not at a few (killed-add).")
    points: int = _number("--points", default=200, help="With --chaos: at how many points.")

    @property
    def is_selective(self) -> bool:
        """Whether checks are chosen, by other than their profile."""
        return bool(self.ids or self.skip or self.level or self.sections)

    def checks(self) -> "list[Check]":
        """Return the selected checks, in the order of the catalogue. Raises UsageError."""
        from harness.conformance.checks import all_checks
        from harness.conformance.selection import Selection, SelectionError
        from harness.conformance.sentences import Level

        level = Level(self.level) if self.level else None
        selection = Selection(only=self.ids, skip=self.skip, level=level, sections=self.sections)
        try:
            chosen = selection.of(all_checks())
        except SelectionError as error:
            where = "" if error.option == "section" else _LISTING
            raise _unknown(f"--{error.option}", error.given, error.known, where) from None
        return [check for check in chosen if self.profile is None or self.profile in check.profiles]

    def arguments(self, ctx: click.Context, bin_dirs: Sequence[Path]) -> "Arguments":
        """Return the arguments with which a finding can be repeated: those on the command line, with absolute paths."""
        from harness.conformance.reproduce import Arguments, option_words, this_program

        given = [
            option_words(each.metadata["name"], getattr(self, each.name))
            for each in fields(self)
            if each.metadata["decides"] and ctx.get_parameter_source(each.name) is not ParameterSource.DEFAULT
        ]
        words = tuple(word for words in given for word in words)
        return Arguments(program=this_program(), bin_dirs=tuple(bin_dirs), options=words)


def conformance_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, which gets them as `options`."""

    @wraps(command)
    def collected(*args: object, **given: object) -> object:
        values: dict[str, Any] = {each.name: given.pop(each.name) for each in fields(ConformanceOptions)}
        return command(*args, options=ConformanceOptions(**values), **given)

    for each in reversed(fields(ConformanceOptions)):
        collected = click.option(each.metadata["name"], each.name, **each.metadata["settings"])(collected)
    return collected


def emit_tables(settings: Settings, document: object, tables: Sequence[TextTable]) -> None:
    """Print the document, or the tables with an empty line between."""
    emit(settings.output, document, tables[0])
    for table in tables[1:] if settings.is_table else ():
        write("")
        emit(settings.output, None, table)


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
