"""The examples in the help of each verb."""

from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import NamedTuple

import click

from harness.cli.command_line import cli
from harness.cli.verb_help import VerbCommand
from tests.cli import ROOT

_NODE = """
kind: Node
metadata: {name: node-1}
spec: {podCIDRs: [10.244.1.0/24]}
"""


class Example(NamedTuple):
    """A command line without `cni-harness`, of the verb whose help has it."""

    verb: str
    line: str
    purpose: str


def verbs(group: click.Group = cli, *above: str) -> Iterator[tuple[str, VerbCommand]]:
    """Yield each verb with its name, `conformance matrix` for one below another."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is None or command.hidden:
            continue
        assert isinstance(command, VerbCommand), name
        yield " ".join([*above, name]), command
        if isinstance(command, click.Group):
            yield from verbs(command, *above, name)


def examples() -> list[Example]:
    """Return all examples, in the order of the help."""
    return [Example(name, line, purpose) for name, verb in verbs() for line, purpose in verb.examples.items()]


def prepare(folder: Path) -> None:
    """Make the files and folders that the examples name."""
    copy(ROOT / "docs/examples/web.yaml", folder)
    copy(ROOT / "conf/40-ptp.conflist", folder / "my.conflist")
    for name in ("build", "manifests", "nodes", "records"):
        (folder / name).mkdir()
    (folder / "nodes" / "node-1.yaml").write_text(_NODE)
