"""`cni-harness serve`: the server of this project's plugins, in the foreground."""

import click

from harness.cli.option_types import time_option
from harness.cli.options import Settings, verb
from launch.installation import DEFAULT_SOCKET


@verb(
    "serve",
    examples={
        "serve": "Serve until a signal",
        "serve --workers 8 --idle-exit 5m": "End after five minutes without a call",
    },
    root="does what root's plugins ask for",
)
@click.option("--socket", default=DEFAULT_SOCKET, show_default=True, help="The launchers' socket, set by `install`.")
@click.option("--workers", type=click.IntRange(min=1), default=4, show_default=True, help="Ready for calls.")
@click.option("--most", type=click.IntRange(min=1), default=32, show_default=True, help="If others wait.")
@time_option("--limit", "For one call at most.", "300s", positive=True, whole=True)
@time_option("--idle-exit", "End after so long without a request.")
def command(_: Settings, *, socket: str, workers: int, most: int, limit: int, idle_exit: float | None) -> None:
    """Run the server, which makes this project's plugins several times faster: Python is loaded already.

    With systemd, `cni-harness install` sets up its start on demand. SIGTERM ends it as soon as running calls are done;
    plugins then execute without it.
    """
    import os
    from pathlib import Path

    from launch.installation import command as command_of

    options = {"--socket": Path(socket).absolute(), "--workers": workers, "--most": most, "--limit": limit}
    if idle_exit:
        options["--idle-exit"] = idle_exit
    # The server replaces this program, because the harness itself never loads plugins.
    arguments = [*command_of("launch.server.server"), *(str(word) for option in options.items() for word in option)]
    os.execv(arguments[0], arguments)  # noqa: S606 -- no shell is wanted
