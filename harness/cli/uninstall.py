"""`cni-harness uninstall`: removal of the files that `install` wrote."""

import os
from contextlib import suppress

import click

from harness.cli.options import Settings, verb
from harness.output import TextTable, say


@verb(
    "uninstall",
    examples={
        "uninstall": "Take back all that was installed",
        "uninstall --bin-dir bin": "Take it back from one folder",
    },
    makes_folders=True,
)
@click.option("--agent", is_flag=True, help="Only the agent's unit; routes, tunnel and list stay until `agent down`.")
def command(settings: Settings, *, agent: bool) -> None:
    """Remove the files that `install` wrote, and restore the files that it replaced.

    With --bin-dir or --conf-dir only in these folders, otherwise everywhere. If a file was changed since, it stays.
    """
    from harness.install.files import installed, uninstall
    from harness.install.units import AGENT_SERVICE, PROTOCOLS, UNIT_DIR, agent_files, disabled

    # CNI_PATH and NETCONFPATH are for searching, not for removal.
    folders = [*settings.bin_dirs] if "bin_dirs" in settings.named else []
    if settings.conf_dir is not None and "conf_dir" in settings.named:
        folders.append(settings.conf_dir)
    if agent:
        folders += agent_files(UNIT_DIR, PROTOCOLS, ())
    files = installed(settings.state_dir, folders)
    if folders and not files:
        say(f"`install` has written no file into {', '.join(map(str, folders))}")
    with disabled(files):
        done = uninstall(settings.state_dir, folders)
    outcomes = (("removed", done.removed), ("restored", done.restored), ("kept, changed since", done.changed))
    document = {state.partition(",")[0]: [str(path) for path in paths] for state, paths in outcomes}
    rows = [[str(path), state] for state, paths in outcomes for path in paths]
    settings.emit(document, TextTable(("FILE", "STATE"), rows))
    if UNIT_DIR / AGENT_SERVICE in done.removed:
        say("Routes, tunnel and network list of the agent stay: `cni-harness agent down` takes them back")
    if done.removed or done.restored:
        _warn_of_elements(settings)


def _warn_of_elements(settings: Settings) -> None:
    """Say that pods have elements of nftables, if root can see them: other plugins do not know these."""
    from harness.runtime.leftovers import owned_elements
    from harness.snapshot import SnapshotError

    if os.geteuid() == 0:
        with suppress(SnapshotError):
            if owners := {owner for owner, _ in owned_elements(settings.open_node())}:
                say(
                    f"Attachments with elements in nftables: {len(owners)}. The DEL of other plugins leaves these. "
                    "`cni-harness gc --bin-dir FOLDER` removes them, with this project's plugins in FOLDER."
                )
