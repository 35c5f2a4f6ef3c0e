"""`cni-harness validate`: would these network lists work here?"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import Settings, verb
from harness.output import TextTable, say

if TYPE_CHECKING:
    from harness.libcni.networks import NetworkList


@verb(
    "validate",
    examples={
        "validate": "Check all configured lists",
        "validate my.conflist": "Check one file",
    },
)
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path))
def command(settings: Settings, *, files: tuple[Path, ...]) -> int:
    """Check network lists: keys, values, and that their plugins are here and speak their version. Needs no root.

    Without FILE, all configured lists. A list is also wrong if another list of its name comes first, because then it is
    not used. The exit code is 1 if anything is wrong. Warnings, such as unknown keys, do not change it.
    """
    from harness.cli.defaults import plugin_folders, plugin_types
    from harness.cli.execution_log import execution_logger
    from harness.libcni.execute import Executor
    from harness.libcni.operations import plugin_versions
    from harness.validation.value_rules import overlaps

    networks, unusable = _read(settings, files)
    unused = {} if files else _unused(networks)
    with plugin_folders(settings, plugin_types(networks)) as bin_dirs:
        versions = partial(plugin_versions, Executor(bin_dirs, observe=execution_logger(settings.verbose)))
        verdicts = unusable + [_verdict(network, unused.get(network.source, []), versions) for network in networks]
    for overlap in overlaps([network for network in networks if network.source not in unused]):
        say(f"Warning: {overlap}")
    rows = [row for verdict in verdicts for row in verdict.rows()]
    document = {"networks": [vars(verdict) for verdict in verdicts]}
    settings.emit(document, TextTable(("NETWORK", "VERDICT", "FINDING", "FILE"), rows, "VERDICT"))
    return 1 if any(verdict.problems for verdict in verdicts) else 0


@dataclass
class _Verdict:
    """The findings in one file; `name` is empty for a file that cannot be read."""

    file: str
    name: str
    problems: list[str]
    warnings: list[str]

    def rows(self) -> list[list[str]]:
        wrong = "wrong" if self.name else "unusable"
        found = [(wrong, text) for text in self.problems] + [("warning", text) for text in self.warnings]
        return [[self.name, verdict, text, self.file] for verdict, text in (found or [("ok", "")])]


def _verdict(network: "NetworkList", unused: list[str], versions: Callable[[str], list[str]]) -> _Verdict:
    from harness.validation.validate import validate

    warnings: list[str] = []
    try:
        problems = unused + validate(network, versions, warnings.append)
    except ModuleNotFoundError as error:
        message = f"`cni-harness validate` needs the Python package {error.name}, which cni-harness.pyz does not hold"
        raise click.ClickException(message) from None
    return _Verdict(str(network.source or ""), network.name, problems, warnings)


def _read(settings: Settings, files: tuple[Path, ...]) -> tuple[list["NetworkList"], list[_Verdict]]:
    from harness.cli.defaults import network_folder
    from harness.libcni.networks import NetworkError, network_files, read_network_file

    networks, unusable = [], []
    for path in files or network_files(network_folder(settings)):
        try:
            networks.append(read_network_file(path))
        except NetworkError as error:
            problem = str(error).removeprefix(f"{path}: ")
            unusable.append(_Verdict(str(path), "", [problem], []))
    return networks, unusable


def _unused(networks: list["NetworkList"]) -> dict[Path | None, list[str]]:
    """Return, by file, the errors of networks that are unused because another of the same name comes first."""
    first: dict[str, NetworkList] = {}
    for network in networks:
        first.setdefault(network.name, network)
    return {
        network.source: [f"not used: the network of this name is that of {first[network.name].source}"]
        for network in networks
        if network is not first[network.name]
    }
