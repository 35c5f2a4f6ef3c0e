"""`cni-harness snapshot`: the state of a node, to look at or to compare."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.node_pods import node_pod, node_pods
from harness.cli.options import Settings, complete_pod, namespace_option, verb
from harness.output import TextTable, say

if TYPE_CHECKING:
    from harness.snapshot import Snapshot

_COUNTED = ("sysctls",)
"""Shown as a number: sysctls are hundreds, and most have their value of the machine's start."""


@verb(
    "snapshot",
    examples={
        "snapshot -o json > before.json": "Keep the state, for `cni-harness diff`",
        "snapshot --pod pod1": "Show the node and one of its pods",
    },
    root="looks into network namespaces",
)
@click.option(
    "--pod",
    "pods",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_pod,
    help="Of the node's pods only this; may be repeated.  [default: all]",
)
@click.option(
    "--netns",
    "paths",
    multiple=True,
    metavar="LABEL=PATH",
    help="In place of node and pods, this network namespace; may be repeated.",
)
@click.option(
    "--folder",
    "folders",
    multiple=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Also the files below this folder; may be repeated.  [always: the node's /var/lib/cni]",
)
@namespace_option
def command(
    settings: Settings, *, pods: tuple[str, ...], paths: tuple[str, ...], folders: tuple[Path, ...], namespace: str
) -> None:
    """Show the state of the node and its pods: the parts of networks, and files.

    Links, addresses, routes, rules, neighbours set by hand, qdiscs and filters, nftables, iptables and sysctls; no
    state that changes by itself. `cni-harness diff` reads the form of `-o json`.
    """
    from harness.runtime.node_snapshot import take_node
    from harness.runtime.sandbox_life import SandboxState
    from harness.snapshot import take

    folders = tuple(folder.absolute() for folder in folders)
    if paths and pods:
        raise click.UsageError("--netns is in place of the node and its pods: it does not go with --pod")
    if paths:
        snapshot = take(dict(map(_labelled, paths)), folders)
    else:
        node = settings.existing_node()
        every = [pod for pod in node_pods(settings) if pod.state is not SandboxState.NOTREADY]
        wanted = [node_pod(settings, namespace, name) for name in pods] if pods else every
        snapshot = take_node(node, wanted, folders)
    for line in snapshot.missing:
        say(line)
    settings.emit(snapshot.to_document(), TextTable(("PLACE", "WHAT", "STATE"), _rows(snapshot)))


def _labelled(text: str) -> tuple[str, str]:
    label, equals, path = text.partition("=")
    if not equals or not label or not path or "/" in label:
        raise click.UsageError(f"--netns {text!r}: wanted LABEL=PATH, and no '/' in the label")
    return label, str(Path(path).absolute())


def _rows(snapshot: "Snapshot") -> list[list[str]]:
    from harness.snapshot.compare import THINGS
    from harness.snapshot.descriptions import described_things
    from harness.snapshot.state import FILES

    rows = []
    for name, things in snapshot.sections.items():
        place, _, what = name.partition("/")
        if what in _COUNTED:
            rows.append([place, what, f"{len(things)}, see -o json"])
            continue
        thing = THINGS.get(what, "file" if name == FILES else "")
        rows += [[place, what or "file", line] for line in described_things(thing, things)]
    return rows
