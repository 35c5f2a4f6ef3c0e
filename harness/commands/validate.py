"""`cni-harness validate`: would these network lists work here?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.options import Settings, global_options, pass_settings, say
from harness.output import Table, emit

if TYPE_CHECKING:
    from harness.networks import NetworkError, NetworkList

__all__ = ["command"]


@click.command("validate")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path))
@global_options()
@pass_settings
def command(settings: Settings, *, files: tuple[Path, ...]) -> int:
    """Check network lists: their keys, and that their plugins are here and speak their version. Needs no root.

    Without FILE, all those configured; one that is not used, since another of its name comes first, is wrong too. The
    exit code is 1 where anything is wrong.
    """
    from harness.cache import ResultCache
    from harness.defaults import plugin_folders, plugin_types
    from harness.execute import Executor
    from harness.libcni import Libcni
    from harness.overlaps import overlaps
    from harness.trace import trace_executions

    networks, broken = _read(settings, files)
    unused = {} if files else _unused(networks)
    document = [{"file": "", "name": "", "problems": [str(error)]} for error in broken]
    with plugin_folders(settings, plugin_types(networks)) as bin_dirs:
        executor = Executor(bin_dirs, observe=trace_executions(settings.verbose))
        libcni = Libcni(executor, ResultCache(), warn=lambda message: say(f"Warning: {message}"))
        for network in networks:
            problems = unused.get(network.source, []) + libcni.validate(network)
            document.append({"file": str(network.source or ""), "name": network.name, "problems": problems})
    for overlap in overlaps([network for network in networks if network.source not in unused]):
        say(f"Warning: {overlap}")
    rows = [
        [str(each["name"]), problem, str(each["file"])] for each in document for problem in (each["problems"] or ["ok"])
    ]
    emit(settings.output, {"networks": document}, Table(("NETWORK", "PROBLEM", "FILE"), rows, "PROBLEM"))
    return 1 if any(each["problems"] for each in document) else 0


def _read(settings: Settings, files: tuple[Path, ...]) -> tuple[list["NetworkList"], list["NetworkError"]]:
    from harness.defaults import network_folder
    from harness.networks import NetworkError, network_files, read_network_file

    networks, broken = [], []
    for path in files or network_files(network_folder(settings)):
        try:
            networks.append(read_network_file(path))
        except NetworkError as error:
            broken.append(error)
    return networks, broken


def _unused(networks: list["NetworkList"]) -> dict[Path | None, list[str]]:
    """Return, by file, what is wrong with a folder's networks that another of the same name comes before."""
    first: dict[str, NetworkList] = {}
    for network in networks:
        first.setdefault(network.name, network)
    return {
        network.source: [f"not used: the network of this name is that of {first[network.name].source}"]
        for network in networks
        if network is not first[network.name]
    }
