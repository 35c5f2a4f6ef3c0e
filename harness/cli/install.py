"""`cni-harness install`: plugins in the folder that runtimes search."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import Settings, verb
from harness.locations import DEFAULT_BIN_DIR, DEFAULT_CONF_DIR, DEFAULT_STATE_DIR, OWN_CONF_DIR
from harness.output import TextTable, say

if TYPE_CHECKING:
    from harness.install.files import Content

_FIRST = "10-cni-harness.conflist"


@verb(
    "install",
    examples={
        "install --bin-dir /opt/cni/bin --conf-dir /etc/cni/net.d --conf": "Install the plugins and a network list",
        "install --bin-dir bin --no-units": "Only write the plugins, into a folder of your own",
    },
    makes_folders=True,
)
@click.option(
    "--conf",
    is_flag=False,
    flag_value=_FIRST,
    metavar="[FILE]",
    help=f"Also put a network list of this project into --conf-dir.  [{_FIRST} unless named]",
)
@click.option("--force", is_flag=True, help="Replace other plugins of the same names, until `uninstall` restores them.")
@click.option(
    "--divert",
    is_flag=True,
    help="The same for files of Debian packages, by dpkg-divert: a new version of the package does not undo it.",
)
@click.option(
    "--units/--no-units",
    default=None,
    help="Have systemd start the server and the DHCP daemon when they are needed.  "
    "[with systemd, the default --state-dir, and no package]",
)
@click.option(
    "--agent",
    metavar="OPTIONS",
    help="Also have systemd run `cni-harness agent` with these options, in one word for the shell.",
)
@click.option("--unit-dir", type=click.Path(file_okay=False, path_type=Path), hidden=True, help="For a look at them.")
def command(
    settings: Settings,
    *,
    conf: str | None,
    force: bool,
    divert: bool,
    units: bool | None,
    agent: str | None,
    unit_dir: Path | None,
) -> None:
    """Write the plugins of this project into --bin-dir, each by rename: no runtime ever sees half of one.

    Plugins that other distributions of this Python environment declare are written, too (docs/writing-a-plugin.md).
    The output says which files the container runtimes of this machine will execute, by their own configuration. That
    configuration is not changed. `cni-harness uninstall` removes exactly the files that `install` wrote.
    """
    from harness.install import units as systemd
    from harness.install.files import install, launchers
    from launch.launcher import compiled_launcher

    folders = settings.bin_dirs or (DEFAULT_BIN_DIR,)
    if len(folders) > 1:
        raise click.UsageError(f"install wants one --bin-dir, not {':'.join(map(str, folders))}")
    files = launchers(folders[0])
    if compiled_launcher() is None:
        say("This was installed without a C compiler: the plugins get the slower launcher, in Python")
    if units is None:
        units = systemd.is_systemd_running() and settings.state_dir == DEFAULT_STATE_DIR and not systemd.are_packaged()
    if units:
        folder = (unit_dir or systemd.UNIT_DIR).absolute()
        files |= systemd.units(folder) | systemd.dhcp_units(folder)
    agents = _agent(settings, agent, unit_dir) if agent is not None else {}
    files |= agents
    # After the plugins: containerd uses a list as soon as it exists.
    if conf is not None:
        files |= _list(conf, settings.conf_dir or DEFAULT_CONF_DIR)
    written = install(files, settings.state_dir, force=force, diverting=divert)
    if units and unit_dir is None:
        systemd.enable(changed=bool(written))
    if agents and unit_dir is None:
        systemd.enable_agent(changed=not agents.keys().isdisjoint(written))
    document = [{"path": str(path), "written": path in written} for path in files]
    rows = [[str(path), "installed" if path in written else "is there already"] for path in files]
    if not units and not systemd.is_systemd_running():
        say("Without systemd: `cni-harness serve` runs the server, which saves each plugin the start of Python")
    runtimes = _say_who_executes(settings, folders[0])
    settings.emit({"files": document, "runtimes": runtimes}, TextTable(("FILE", "STATE"), rows, "STATE"))


def _say_who_executes(settings: Settings, folder: Path) -> list[dict[str, object]]:
    """Report the files that each runtime will execute, and lists with too old plugins; return the files."""
    from harness.install.doctor import advice, version_warnings, versions_by_asking
    from harness.install.files import installed
    from harness.install.runtime_configs import runtime_configs
    from launch.installation import plugin_names

    names = plugin_names()
    folders = [folder, *{path.parent for path in installed(settings.state_dir) if path.name in names} - {folder}]
    configs = runtime_configs()
    for config in configs:
        say(advice(config, folders, names))
    conf_dir = settings.conf_dir or DEFAULT_CONF_DIR
    for warning in version_warnings(conf_dir, folder, configs, versions_by_asking()):
        say(f"Warning: {warning}")
    return [
        {"name": config.name, "executes": {name: str(config.plugin(name) or "") for name in names}}
        for config in configs
        if not (config.problem or config.unused)
    ]


def _agent(settings: Settings, line: str, unit_dir: Path | None) -> "dict[Path, Content]":
    """Return the agent's files. Raises UsageError if it would not start with these options."""
    import shlex

    from harness.cli.agent import command as agent
    from harness.install import units as systemd

    try:
        words = shlex.split(line)
    except ValueError as error:
        raise click.UsageError(f"--agent {line!r}: {error}") from None
    if {"-h", "--help"} & set(words):
        raise click.UsageError(f"--agent {line!r}: wanted options with which it runs")
    with agent.make_context("cni-harness agent", list(words)) as ctx:
        relative = [str(value) for value in ctx.params.values() if isinstance(value, Path) and not value.is_absolute()]
    if relative:
        raise click.UsageError(f"--agent {line!r}: wanted an absolute path, not {relative[0]}")
    if ctx.params["action"] != "run" or ctx.params["once"] or ctx.params["dry_run"]:
        raise click.UsageError(f"--agent {line!r}: wanted options with which it runs")
    for name, folder in (("conf_dir", settings.conf_dir), ("state_dir", settings.state_dir)):
        if name in settings.named and f"--{name.replace('_', '-')}" not in words:
            words = [f"--{name.replace('_', '-')}={folder}", *words]
    if unit_dir is None and not systemd.is_systemd_running():
        raise click.UsageError("--agent is for systemd, which does not run here: start `cni-harness agent` by itself")
    folder = (unit_dir or systemd.UNIT_DIR).absolute()
    return systemd.agent_files(folder, folder if unit_dir else systemd.PROTOCOLS, words)


def _list(name: str, conf_dir: Path) -> "dict[Path, Content]":
    from harness.install.files import Content

    own = {path.name: path for path in sorted(OWN_CONF_DIR.glob("*.conflist"))}
    if name not in own:
        raise click.UsageError(f"--conf {name}: no such list of this project (there are: {', '.join(own)})")
    return {conf_dir / name: Content(own[name].read_bytes(), 0o644)}
