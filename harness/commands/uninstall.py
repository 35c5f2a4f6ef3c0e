"""`cni-harness uninstall`: what `install` put there, taken back."""

import click

from harness.options import Settings, global_options, pass_settings
from harness.output import Table, emit

__all__ = ["command"]


@click.command("uninstall")
@global_options()
@pass_settings
def command(settings: Settings) -> None:
    """Take back what `install` put there, wherever that was, and restore what it replaced.

    A file that was changed since is somebody else's now, and stays.
    """
    from harness.install import installed, uninstall
    from harness.units import disabled

    with disabled(installed(settings.state_dir)):
        done = uninstall(settings.state_dir)
    outcomes = (("removed", done.removed), ("restored", done.restored), ("kept, changed since", done.changed))
    document = {state.partition(",")[0]: [str(path) for path in paths] for state, paths in outcomes}
    rows = [[str(path), state] for state, paths in outcomes for path in paths]
    emit(settings.output, document, Table(("FILE", "STATE"), rows))
