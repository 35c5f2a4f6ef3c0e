"""The options of `cni-harness conformance` that choose checks, and their completion in shells."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from harness.conformance.catalogue import Check

_LEVELS: Final = ("MUST", "SHOULD", "MAY", "CONVENTION")
_LISTING: Final = "cni-harness conformance --list"


def _complete_check(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    from harness.conformance.catalogue import checks

    return [check.id for check in checks() if check.id.startswith(incomplete)]


def _complete_section(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    from harness.conformance.catalogue import checks
    from harness.conformance.selection import section_names

    names = section_names(checks())
    wanted = incomplete.lower()
    return [name for name in sorted({*names, *_chapters(names)}) if name.lower().startswith(wanted)]


def _chapters(names: Sequence[str] | dict[str, str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


_several: Final = partial(click.option, multiple=True)
SELECTION_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
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
    _several(
        "--section",
        "sections",
        metavar="S",
        shell_complete=_complete_section,
        help="Only checks of this section, for example 2.ADD, 5 or runtimes.containerd; may be repeated.",
    ),
)
"""Options for `ids`, `skip`, `level` and `sections`."""


def selected(ids: Sequence[str], skip: Sequence[str], level: str | None, sections: Sequence[str]) -> "list[Check]":
    """Return the chosen checks, in the order of the catalogue. Raises UsageError."""
    from harness.conformance.catalogue import checks
    from harness.conformance.selection import Selection, SelectionError
    from harness.conformance.sentences import Level

    selection = Selection(only=ids, skip=skip, level=Level(level) if level else None, sections=sections)
    try:
        return selection.of(checks())
    except SelectionError as error:
        where = "" if error.option == "section" else _LISTING
        raise _unknown(f"--{error.option}", error.given, error.known, where) from None


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
