"""`cni-harness diff`: the differences between two snapshots, or between a snapshot and now."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import Settings, needs_root, verb
from harness.output import TextTable, message_of, say

if TYPE_CHECKING:
    from harness.snapshot import Snapshot

_SNAPSHOT = click.Path(allow_dash=True, dir_okay=False, path_type=Path)


class _TroubleError(click.ClickException):
    """The comparison failed; the exit code is 2, as of diff(1)."""

    exit_code = 2


@verb(
    "diff",
    examples={
        "diff before.json": "Compare the present state with a snapshot",
        "diff before.json after.json --ignore 'files/*'": "Compare two snapshots, without files",
    },
)
@click.argument("before", type=_SNAPSHOT)
@click.argument("after", type=_SNAPSHOT, required=False)
@click.option(
    "--ignore",
    multiple=True,
    metavar="PATTERN",
    help="Ignore entries that match 'PLACE/WHAT/NAME', with wildcards: 'files/*', 'node/sysctl/*'; may be repeated.",
)
def command(settings: Settings, *, before: Path, after: Path | None, ignore: tuple[str, ...]) -> int:
    """Compare two snapshots (`cni-harness snapshot -o json`), or one with the present state. "-" is stdin.

    New entries are shown with "+", missing ones with "-", changed ones with "~". The exit code is 0 if nothing differs,
    1 if something differs, 2 if the comparison failed.
    """
    from harness.snapshot import differences

    old = _read(before)
    new = _read(after) if after is not None else _now(old)
    for line in dict.fromkeys([*old.missing, *new.missing]):
        say(line)
    found = differences(old, new, ignore=ignore)
    settings.emit({}, TextTable((), ()), found)
    return 1 if found else 0


def _read(path: Path) -> "Snapshot":
    from harness.snapshot import Snapshot

    try:
        with click.open_file(str(path), encoding="utf-8") as stream:
            return Snapshot.from_document(json.load(stream))
    except (ValueError, RecursionError):
        raise _TroubleError(f"{path}: not JSON; `cni-harness snapshot -o json` writes what is read here") from None
    except OSError as error:
        raise _TroubleError(f"{path}: {error.strerror or error}") from error


def _now(old: "Snapshot") -> "Snapshot":
    from harness.snapshot import take

    try:
        needs_root("diff", "looks into network namespaces")
        return take(old.namespaces, [Path(folder) for folder in old.folders])
    except click.ClickException as error:
        raise _TroubleError(error.message) from error
    except OSError as error:
        raise _TroubleError(message_of(error)) from error
    except ValueError as error:  # a path with characters that no path can have
        raise _TroubleError(f"namespaces or folders: {error}") from error
