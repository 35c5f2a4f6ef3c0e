"""`cni-harness doctor`: which plugins the container runtimes of this machine execute."""

from typing import TYPE_CHECKING

from harness.cli.options import Settings, verb
from harness.output import TextTable, say
from launch.installation import DEFAULT_SOCKET, plugin_names

if TYPE_CHECKING:
    from harness.install.doctor import ExaminedRuntime


@verb(
    "doctor",
    examples={
        "doctor": "Show each runtime with its plugins and errors",
        "doctor -o json": "The same for a program",
    },
)
def command(settings: Settings) -> int:
    """Show the plugins that containerd, CRI-O and Podman on this machine execute for a pod, by their configuration.

    For each runtime: its configuration files, folders, the network list that pods get, the suite of that list's
    plugins, and errors. Then the plugins that other distributions declare, and launchers that `install` would write
    anew. The exit code is 1 if something is wrong. Plugins are only asked for their versions.
    """
    from harness.install.doctor import advice, examine, outdated, server_listens, versions_by_asking
    from harness.install.files import installed
    from harness.install.runtime_configs import runtime_configs
    from launch.distributions import declared

    versions_of = versions_by_asking()
    runtimes = [examine(config, versions_of) for config in runtime_configs()]
    if not runtimes:
        say("No runtime found: no executable and no configuration of containerd, crio or podman")
    launchers = plugin_names()
    others = declared()
    placed = [path for path in installed(settings.state_dir) if path.name in launchers]
    names = sorted({path.name for path in placed})
    folders = sorted({path.parent for path in placed})
    for each in runtimes:
        if placed and not each.config.problem and not each.config.unused:
            say(advice(each.config, folders, names))
    old = outdated(placed, others.plugins)
    up = server_listens()
    document = {
        "runtimes": [_document(each) for each in runtimes],
        "distributions": [
            {"name": each.name, "version": each.version, "plugins": [name for name, _ in each.plugins]}
            for each in others.distributions
        ],
        "outdated": [str(path) for path in old],
        "server": {"socket": DEFAULT_SOCKET, "listening": up},
    }
    rows = [[each.config.name, *row] for each in runtimes for row in _rows(each)]
    rows += [
        ["", f"plugins of {each.name} {each.version}", ", ".join(name for name, _ in each.plugins)]
        for each in others.distributions
    ]
    if old:
        rows.append(["", "problem", f"run `cni-harness install` again, for {', '.join(map(str, old))}"])
    server = f"listening at {DEFAULT_SOCKET}" if up else "not running: each plugin starts Python by itself"
    settings.emit(document, TextTable(("RUNTIME", "ITEM", "VALUE"), [*rows, ["", "server", server]]))
    return 1 if old or any(each.problems for each in runtimes) else 0


def _document(examined: "ExaminedRuntime") -> dict[str, object]:
    config = examined.config
    return {
        "name": config.name,
        "configuration": [str(path) for path in config.files],
        "usesCNI": not config.unused,
        "binDirs": [str(path) for path in config.bin_dirs],
        "confDir": str(config.conf_dir),
        "network": examined.network,
        "list": str(examined.source or ""),
        "plugins": [
            {"type": used.type, "path": str(used.path or ""), "origin": used.origin} for used in examined.plugins
        ],
        "problems": examined.problems,
    }


def _rows(examined: "ExaminedRuntime") -> list[list[str]]:
    config = examined.config
    rows = [["configuration", ", ".join(map(str, config.files)) or "defaults"]]
    if config.unused:
        return [*rows, ["CNI", f"not used: {config.unused}"]]
    if not config.problem:
        source = examined.source or ("built in" if examined.network else "")
        rows += [
            ["plugins from", ":".join(map(str, config.bin_dirs))],
            ["lists from", str(config.conf_dir)],
            ["list in use", f"{source} (network {examined.network})" if examined.network else "none"],
        ]
        rows += [
            [f"plugin {used.type}", f"{used.path} ({used.origin})" if used.path else "missing"]
            for used in examined.plugins
        ]
    return rows + [["problem", problem] for problem in examined.problems]
