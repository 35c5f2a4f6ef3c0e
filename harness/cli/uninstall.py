"""`cni-harness uninstall`: removal of the files that `install` wrote."""

from pathlib import Path

import click
from click.core import ParameterSource

from harness.cli.options import Settings, global_options, pass_settings, say
from harness.output import emit
from harness.table import Table

__all__ = ["command"]


@click.command("uninstall")
@global_options(makes_folders=True)
@pass_settings
def command(settings: Settings) -> None:
    """Remove the files that `install` wrote, and restore the files that it replaced.

    With --bin-dir or --conf-dir only in these folders, otherwise everywhere. If a file was changed since, it stays.
    """
    from harness.install.files import installed, uninstall
    from harness.install.units import disabled

    folders = _named_folders(settings)
    files = installed(settings.state_dir, folders)
    if folders and not files:
        say(f"`install` has written no file into {', '.join(map(str, folders))}")
    with disabled(files):
        done = uninstall(settings.state_dir, folders)
    outcomes = (("removed", done.removed), ("restored", done.restored), ("kept, changed since", done.changed))
    document = {state.partition(",")[0]: [str(path) for path in paths] for state, paths in outcomes}
    rows = [[str(path), state] for state, paths in outcomes for path in paths]
    emit(settings.output, document, Table(("FILE", "STATE"), rows))


def _named_folders(settings: Settings) -> list[Path]:
    """Return the folders on the command line: CNI_PATH and NETCONFPATH are for searching, not for removal."""
    folders: list[Path] = []
    if _is_on_command_line("bin_dirs"):
        folders += settings.bin_dirs
    if _is_on_command_line("conf_dir") and settings.conf_dir is not None:
        folders.append(settings.conf_dir)
    return folders


def _is_on_command_line(option: str) -> bool:
    context = click.get_current_context(silent=True)
    while context is not None:
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            return True
        context = context.parent
    return False
