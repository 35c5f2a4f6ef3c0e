"""`cni-harness agent`: routes and tunnels to the pods of other nodes, and the node's network list."""

import os
import select
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from harness.cli.interruption import handled_by
from harness.cli.kubelet_node import node_name as default_node_name
from harness.cli.option_types import backend_option, networks_option
from harness.cli.options import Settings, needs_root, verb
from harness.output import TextTable, emit, message_of, say, say_changes
from harness.runtime.node import NodeError
from skel import CniError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent.agent import Agent
    from agent.options import Options
    from agent.peers import Judgement, Network
    from agent.sources import NodeSource
    from harness.http_server import AddressHttpServer, UnixHttpServer

_SOCKET: Final = "agent.sock"
_DIFFERENCES, _TROUBLE = 1, 2
_WAIT: Final = 10.0
"""Seconds in which --once and --dry-run wait for the Nodes."""


class _TroubleError(click.ClickException):
    """The agent cannot do its work; the exit code is 2, as 1 says that there are differences."""

    exit_code = _TROUBLE


@verb(
    "agent",
    examples={
        "agent --kubeconfig agent.conf --cluster-cidr 10.244.0.0/16": "Follow the Nodes of an API server",
        "agent --manifests nodes --node-name node-1 --dry-run": "Show what would change on this node",
        "agent down": "Take back what the agent made",
    },
)
@click.argument("action", type=click.Choice(["run", "status", "down"]), default="run")
@click.option("--node-name", metavar="NAME", help="This node's Node.  [default: --node, or the host's name]")
@click.option(
    "--manifests", type=click.Path(path_type=Path), metavar="DIR|FILE", help="Nodes in files, which are watched."
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Nodes of an API server.  [default without --manifests: the service account of this pod]",
)
@click.option("--apiserver", metavar="URL", help="Another address of the API server: before there is a proxy.")
@backend_option
@click.option(
    "--mtu", type=click.IntRange(1280, 65535), help="Of pods, in bytes.  [default: that of the link, less the tunnel's]"
)
@networks_option("--cluster-cidr", "The ranges of all pods: others are refused, and what leaves them is masqueraded.")
@networks_option("--non-masquerade-cidr", "Ranges to which packets of pods keep their address, too.")
@click.option(
    "--template",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Of the network list, with ${POD_CIDR}, ${POD_CIDR6} and ${MTU}.  [default: this project's]",
)
@click.option("--no-list", is_flag=True, help="Write no network list.")
@click.option("--accept-ra", is_flag=True, help="Keep the routes of router advertisements while IPv6 is forwarded.")
@click.option("--metrics", metavar="ADDRESS", help="Serve metrics to Prometheus there: 127.0.0.1:9471, [::]:9471.")
@click.option("--once", is_flag=True, help="Make the node's state as planned, and end; exit code 1 if problems remain.")
@click.option("--dry-run", is_flag=True, help="Show the differences (+ - ~), change nothing; exit code 1 if any.")
def command(
    settings: Settings,
    *,
    action: str,
    node_name: str | None,
    manifests: Path | None,
    kubeconfig: Path | None,
    apiserver: str | None,
    backend: str,
    mtu: int | None,
    cluster_cidr: "tuple[Network, ...]",
    non_masquerade_cidr: "tuple[Network, ...]",
    template: Path | None,
    no_list: bool,
    accept_ra: bool,
    metrics: str | None,
    once: bool,
    dry_run: bool,
) -> int:
    """Lead packets of pods to the other nodes of a cluster, each of which has a range of pods.

    Nodes come from an API server, of which it needs get, list and watch of nodes, or from manifests. For each there is
    a route (protocol 201), or one through the tunnel cni-vxlan. Forwarding is turned on. As soon as the node's own
    range is known and its routes stand, the network list 10-cni-harness-agent.conflist is written into --conf-dir.

    What differs from that is put right within a second. Ranges that overlap, or that no pod may have, are refused with
    a line on stderr; so is each other problem told. Everything stays when the agent ends.

    `status` shows the ways to all nodes, as the running agent has them. `down` takes back what the agent made.
    """
    from agent.options import NETWORK_LIST, TEMPLATE, Options
    from agent.plan import Backend
    from harness.runtime.agent_lock import agent_folder, held_node

    # Looking at tunnels and tables takes root, too.
    if action != "run" and (once or dry_run):
        raise click.UsageError(f"`agent {action}` takes neither --once nor --dry-run")
    with _trouble(), ExitStack() as stack:
        needs_root("agent", "makes routes and tunnels")
        node = settings.existing_node() if settings.node else settings.open_node()
        folder = agent_folder(node)
        options = Options(
            node_name or default_node_name(settings),
            Backend(backend),
            mtu or 0,
            cluster_cidrs=cluster_cidr,
            non_masquerade=non_masquerade_cidr,
            forwarding=True,
            accept_ra=accept_ra,
            network_list=None if no_list else (settings.conf_dir or node.conf_dir) / NETWORK_LIST,
            template=template or TEMPLATE,
            state_dir=folder,
        )
        if action == "status":
            _show_status(settings, folder / _SOCKET)
            return 0
        if not dry_run:
            stack.enter_context(held_node(node))
        agent = stack.enter_context(_open_agent(options, node.netns))
        if action == "down":
            agent.take_back()
            return 0
        source = stack.enter_context(closing(_source(manifests, kubeconfig, apiserver)))
        if once or dry_run:
            return _do_once(settings, agent, source, dry_run=dry_run)
        for server in _servers(folder, metrics, agent, source):
            stack.enter_context(closing(server))
        _serve(agent, source)
    return 0


@contextmanager
def _trouble() -> "Iterator[None]":
    """Give errors of the block the exit code 2: 1 is for differences."""
    try:
        yield
    except (BrokenPipeError, click.UsageError):
        raise
    except click.ClickException as error:
        raise _TroubleError(error.format_message()) from error
    except (OSError, CniError, NodeError) as error:
        raise _TroubleError(message_of(error)) from error


def _open_agent(options: "Options", netns: str | None) -> "Agent":
    from agent.agent import Agent
    from netlink.namespace import open_namespace

    if netns is None:
        return Agent(options, say=say)  # setns(2) would need CAP_SYS_ADMIN
    with open_namespace(netns) as namespace:
        return Agent(options, namespace, say)


def _source(manifests: Path | None, kubeconfig: Path | None, apiserver: str | None) -> "NodeSource":
    """Open the source that the options name. Raises ClickException."""
    from agent.sources import ApiNodes, ManifestNodes
    from kube.config import from_kubeconfig, in_cluster
    from kube.errors import ConfigError

    if manifests is not None:
        if kubeconfig is not None or apiserver is not None:
            raise click.UsageError("--manifests excludes --kubeconfig and --apiserver")
        try:
            return ManifestNodes(manifests)
        except OSError as error:
            raise _TroubleError(f"--manifests {manifests}: {error.strerror}") from None
    try:
        config = from_kubeconfig(kubeconfig) if kubeconfig is not None else in_cluster()
        return ApiNodes(config.with_server(apiserver) if apiserver else config)
    except ConfigError as error:
        raise _TroubleError(str(error)) from None


def _do_once(settings: Settings, agent: "Agent", source: "NodeSource", *, dry_run: bool) -> int:
    """Reconcile, or show the differences; return the exit code."""
    judgement = _judgement(agent.options, source)
    if dry_run:
        lines = agent.compare(judgement)
        if settings.is_table:
            say_changes(lines)
        else:
            emit(settings.output, {"differences": lines, "problems": agent.problems}, TextTable((), ()))
    else:
        lines = []
        agent.reconcile(judgement)
    for problem in [*source.problems, *agent.problems]:
        say(problem)
    if agent.options.node not in judgement.peers:
        return _TROUBLE
    return _DIFFERENCES if lines or agent.problems else 0


def _judgement(options: "Options", source: "NodeSource") -> "Judgement":
    """Wait for the Nodes, and judge them. Raises ClickException if they do not come."""
    from agent.peers import judge

    deadline = time.monotonic() + _WAIT
    waited_for = source.fileno()
    while (nodes := source.nodes()) is None:
        if time.monotonic() > deadline:
            raise _TroubleError(source.problems[0] if source.problems else f"no Nodes within {_WAIT:.0f} s")
        select.select([waited_for] if waited_for is not None else [], [], [], 1.0)
        source.poll()
    return judge(nodes, options.node, options.cluster_cidrs)


def _servers(
    folder: Path, metrics: str | None, agent: "Agent", source: "NodeSource"
) -> "Iterator[UnixHttpServer | AddressHttpServer]":
    """Yield the server of `agent status`, and that of metrics if it has an address. Raises UsageError."""
    import json

    from harness.cli.agent_status import metrics_of, status_of
    from harness.http_server import JSON, AddressHttpServer, Answer, UnixHttpServer
    from harness.locations import own_version

    version = own_version()

    def answer(path: str) -> Answer | None:
        if path == "/metrics":
            return Answer(metrics_of(agent, source, version), "text/plain; version=0.0.4; charset=utf-8")
        return Answer(agent.failure or "ok", status=500 if agent.failure else 200) if path == "/healthz" else None

    def status(path: str) -> Answer | None:
        return Answer(json.dumps(status_of(agent, source)), JSON) if path == "/status" else answer(path)

    yield UnixHttpServer(folder / _SOCKET, status)
    if metrics is not None:
        try:
            yield AddressHttpServer(metrics, answer)
        except (ValueError, OverflowError) as error:
            raise click.UsageError(f"--metrics {metrics}: {error}") from None
        except OSError as error:
            raise _TroubleError(f"--metrics {metrics}: {error.strerror}") from None


def _show_status(settings: Settings, path: Path) -> None:
    """Ask the agent that runs on the node. Raises ClickException if none does."""
    import json

    from harness.http_server import get

    try:
        status = json.loads(get(path, "/status"))
    except (FileNotFoundError, ConnectionRefusedError):
        raise click.ClickException("`cni-harness agent` does not run on this node") from None
    except (ConnectionResetError, TimeoutError, ValueError):
        raise click.ClickException(f"the agent does not answer at {path}") from None
    rows = [
        [peer["name"], route["to"], route["way"], route["via"], route.get("end", "")]
        for peer in status["peers"]
        for route in peer["routes"]
    ]
    settings.emit(status, TextTable(("NODE", "PODS", "WAY", "GATEWAY", "TUNNEL'S END"), rows))
    if settings.is_table:
        for problem in status["problems"]:
            say(problem)


def _serve(agent: "Agent", source: "NodeSource") -> None:
    """Follow Nodes and kernel until a signal; each new problem is told, and its end."""
    from agent.cluster import Cluster
    from agent.loop import serve
    from harness.cli.agent_status import ToldProblems

    told = ToldProblems()
    stop = os.eventfd(0)
    try:
        with handled_by(lambda *_: os.eventfd_write(stop, 1)):
            say(f"Following the Nodes as {agent.options.node}")
            serve(source, Cluster(agent.options.cluster_cidrs), [agent], stop, lambda _, problems: told.tell(problems))
    finally:
        os.close(stop)
