"""`cni-harness nodes`: many nodes on this machine, with the agents that lead packets from one to the other."""

import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from harness.cli.exec import WithCommand, replace_program
from harness.cli.option_types import backend_option, networks_option
from harness.cli.options import Settings, needs_root, verb
from harness.cli.verb_help import VerbGroup
from harness.output import TextTable, say

if TYPE_CHECKING:
    from agent.peers import Network
    from harness.runtime.cluster import ClusterFiles, Layout
    from harness.runtime.node import Node

_FAMILIES: Final = {"v4": [4], "v6": [6], "dual": [4, 6]}
_READY_S: Final = 120.0
_PAUSE_S: Final = 0.02
_WHY: Final = "makes network namespaces"


@verb(
    "nodes",
    examples={
        "nodes": "List the nodes",
        "nodes -o json": "List them for a program",
    },
    cls=VerbGroup,
    invoke_without_command=True,
)
@click.pass_context
def command(ctx: click.Context, settings: Settings) -> None:
    """Make many nodes on this machine: network namespaces, a network between them, and an agent for each.

    `cni-harness --node node-1 add pod1` makes a pod on one of them.
    """
    if ctx.invoked_subcommand is None:
        _list(settings)


@verb(
    "up",
    examples={
        "nodes up --count 3 --cluster-cidr 10.244.0.0/16": "Make three nodes, whose pods reach each other",
        "nodes up --count 4 --subnets 2 --cluster-cidr 10.244.0.0/16": "Two subnets, with a router between them",
    },
)
# A bridge has 1,023 ports.
@click.option("--count", type=click.IntRange(1, 1000), required=True, metavar="N", help="Nodes.")
@click.option(
    "--subnets",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    metavar="K",
    help="Networks of nodes, with a router between them.",
)
@click.option("--family", type=click.Choice([*_FAMILIES]), help="Of the addresses.  [default: as --cluster-cidr]")
@networks_option("--cluster-cidr", "The addresses of all pods: one range of each family.", required=True)
@backend_option
@click.option(
    "--manifests",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder for Node objects, which the agents watch.  [default: in --state-dir]",
)
def up(
    settings: Settings,
    *,
    count: int,
    subnets: int,
    family: str | None,
    cluster_cidr: "tuple[Network, ...]",
    backend: str,
    manifests: Path | None,
) -> int:
    """Make nodes node-1, node-2 and so on, and an agent for each, which all run in one process in the background.

    It ends when all agents have made their routes and network lists. If it was killed, the next `up` goes on.
    """
    from harness.files import locked
    from harness.runtime.cluster import ClusterError, ClusterFiles, Layout
    from harness.runtime.underlay import MACHINE_LOCK, make_nodes, refuse_foreign

    needs_root("nodes up", _WHY)
    files, words = ClusterFiles(settings.state_dir), ",".join(map(str, cluster_cidr))
    try:
        layout = Layout(count, subnets, backend, cluster_cidr, (manifests or files.manifests).absolute())
        layout.check()
    except ClusterError as error:
        raise click.UsageError(f"--cluster-cidr {words}: {error}") from None
    if family is not None and sorted(each.version for each in cluster_cidr) != _FAMILIES[family]:
        raise click.UsageError(f"--family {family}: --cluster-cidr {words} has not one range of each of it")
    with locked(MACHINE_LOCK), locked(files.lock):
        known = files.layout()
        if known is not None and known != layout:
            raise click.ClickException(f"there are {_in_words(known)}; `cni-harness nodes down` removes them")
        try:
            refuse_foreign(layout, settings.state_dir, is_known=known is not None)
            if known is None:
                _refuse_manifests(layout)
        except Exception:
            if known is None:
                files.remove_lock()
            raise
        files.write_layout(layout)
        _write_launchers(files)
        if make_nodes(layout, settings.state_dir):
            files.end_process()  # it may have sockets in namespaces that are gone
        layout.write_manifests()
        is_running = files.process() is not None
        if not is_running:
            _start(files, settings.state_dir)
        problems = _await(files)
    say(f"{_in_words(layout)} {'stand already' if known and is_running else 'stand'}; log: {files.log}")
    _list(settings)
    return int(any(problems.values()))


@verb(
    "list",
    examples={
        "nodes list": "List the nodes with their addresses and ranges",
        "nodes list -o yaml": "List them with the state of their agents",
    },
)
def list_(settings: Settings) -> None:
    """List the nodes, with the number of their pods and with the problems that their agents tell."""
    _list(settings)


@verb(
    "exec",
    examples={
        "nodes exec 1 -- ip route": "Show the routes of node-1",
        "nodes exec underlay -- bridge link": "Show the network between the nodes",
    },
    cls=WithCommand,
)
@click.argument("name", metavar="N")
@click.argument("arguments", nargs=-1, required=True, metavar="[--] COMMAND...", type=click.UNPROCESSED)
def exec_(settings: Settings, *, name: str, arguments: tuple[str, ...]) -> int:
    """Run a command on a node, by its number or its name, or in the underlay, the network between the nodes.

    The command replaces this program: its exit code and signals are its own.
    """
    from harness.runtime.underlay import nodes_of

    needs_root("nodes exec", "enters a network namespace")
    layout = _files(settings).layout()
    nodes = {str(each.name): each for each in nodes_of(layout, settings.state_dir)} if layout is not None else {}
    found = nodes.get(f"node-{name}" if name.isdecimal() else name)
    if found is None:
        raise click.ClickException(f"there is no node {name}; `cni-harness nodes list` lists them")
    with found.entered():
        return replace_program(arguments)


@verb(
    "down",
    examples={
        "nodes down": "Remove all nodes with their pods",
        "nodes down -o json": "The same, for a program",
    },
)
def down(settings: Settings) -> int:
    """Remove the nodes with their pods, the network between them, and the process with their agents.

    A pod that cannot be deleted stays, with its node. If `down` was killed, the next one goes on.
    """
    from harness.files import locked
    from harness.runtime.underlay import MACHINE_LOCK, nodes_of, remove_nodes

    needs_root("nodes down", "removes network namespaces")
    files = _files(settings)
    if not files.folder.exists():
        say("No nodes")
        settings.emit({"removed": []}, TextTable((), ()))
        return 0
    with locked(MACHINE_LOCK), locked(files.lock):
        layout = files.layout()
        left: list[str] = []
        names: list[str] = []
        if layout is not None:
            names = [place.name for place in layout.places()]
            for node in nodes_of(layout, settings.state_dir):
                _delete_pods(replace(settings, node=node.name), node)
        files.end_process()
        if layout is not None:
            left = remove_nodes(layout, settings.state_dir)
            if not left:
                for place in layout.places():
                    layout.manifest_of(place).unlink(missing_ok=True)
        if not left:
            files.remove()
    for name in left:
        say(f"Kept node {name}: it has pods")
    removed = [name for name in names if name not in left]
    settings.emit({"removed": removed}, TextTable(("REMOVED",), [[name] for name in removed]))
    return int(bool(left))


def _files(settings: Settings) -> "ClusterFiles":
    from harness.runtime.cluster import ClusterFiles

    return ClusterFiles(settings.state_dir)


def _delete_pods(settings: Settings, node: "Node") -> None:
    """Delete all pods of a node; those that cannot be deleted are named on stderr."""
    if not node.pods.has_records():
        return
    from harness.cli.delete import delete_all

    delete_all(settings)


def _list(settings: Settings) -> None:
    from harness.runtime.node import Node

    files = _files(settings)
    layout, pid, problems = files.layout(), files.process(), files.problems() or {}
    listed: list[dict[str, Any]] = []
    for place in layout.places() if layout is not None else ():
        pods = Node(place.name, settings.state_dir).pods
        listed.append(
            {
                "name": place.name,
                "addresses": [str(each.ip) for each in place.addresses],
                "podCIDRs": [str(each) for each in place.pod_cidrs],
                "pods": len(pods.all(on_error=lambda _: None)),
                "problems": problems.get(place.name, []),
            }
        )
    if layout is None:
        say("No nodes")
    elif pid is None:
        say("The agents do not run: `cni-harness nodes up` with the same options starts them")
    rows = [
        [
            each["name"],
            ", ".join(each["addresses"]),
            ", ".join(each["podCIDRs"]),
            str(each["pods"]),
            "; ".join(each["problems"]),
        ]
        for each in listed
    ]
    document = {"nodes": listed, "agents": {"pid": pid, "log": str(files.log)}}
    settings.emit(document, TextTable(("NODE", "ADDRESSES", "POD CIDRS", "PODS", "PROBLEMS"), rows))


def _in_words(layout: "Layout") -> str:
    ranges = ",".join(map(str, layout.cluster_cidrs))
    return f"{layout.count} nodes (subnets {layout.subnets}, pods in {ranges}, backend {layout.backend})"


def _refuse_manifests(layout: "Layout") -> None:
    """Raise ClickException if a Node that `up` would write is there already."""
    for place in layout.places():
        if (path := layout.manifest_of(place)).exists():
            raise click.ClickException(f"{path} exists")


def _write_launchers(files: "ClusterFiles") -> None:
    """Write the plugins of the nodes: they ask the server of the nodes."""
    from harness.files import write_atomically
    from launch.installation import plugin_names
    from launch.launcher import launcher_bytes

    files.bin_dir.mkdir(exist_ok=True)
    content = launcher_bytes(socket=str(files.socket))
    for name in plugin_names():
        write_atomically(files.bin_dir / name, content, mode=0o755)


def _start(files: "ClusterFiles", state_dir: Path) -> None:
    """Start the process with the agents in the background; it puts itself on record."""
    from launch.installation import command as command_of

    with files.log.open("ab") as log:
        process = subprocess.Popen(
            [*command_of("harness.cli.cluster_agents"), str(state_dir)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + _READY_S
    while files.process() != process.pid and process.poll() is None and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    process.returncode = 0  # it outlives this program, which must not warn of that


def _await(files: "ClusterFiles") -> dict[str, list[str]]:
    """Wait until each agent has compared, and return the problems by node. Raises ClickException."""
    deadline = time.monotonic() + _READY_S
    while (problems := files.problems()) is None:
        if time.monotonic() > deadline:
            raise click.ClickException(f"the agents have not compared all within {_READY_S:.0f} s; log: {files.log}")
        if files.process() is None:
            lines = files.log.read_text(errors="replace").splitlines()
            raise click.ClickException(f"the agents do not run; {files.log} ends with: {lines[-1] if lines else ''}")
        time.sleep(_PAUSE_S)
    return problems


for _below in (up, list_, exec_, down):
    command.add_command(_below)
