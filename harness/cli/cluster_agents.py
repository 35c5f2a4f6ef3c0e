"""The process behind `cni-harness nodes up`: the agents of all nodes, and the server of their plugins.

It ends at SIGTERM; everything that the agents have made stays. The server ends with it.
"""

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from agent.agent import Agent
from agent.cluster import Cluster
from agent.loop import serve
from agent.options import NETWORK_LIST, Options
from agent.plan import Backend
from agent.sources import ManifestNodes
from fast_stdlib import syscalls
from harness.cli.agent_status import ToldProblems
from harness.output import message_of, say
from harness.runtime.agent_lock import agent_folder, held_node
from harness.runtime.cluster import ClusterFiles, Layout
from harness.runtime.node import Node
from launch.installation import command
from netlink.namespace import open_namespace

_PR_SET_PDEATHSIG: Final = 1


class _Source(ManifestNodes):
    """The manifests of the nodes. The loop asks often for changes, so that the status is written then."""

    def __init__(self, path: Path, status: "_Status") -> None:
        self._status = status
        super().__init__(path)

    def poll(self) -> bool:
        """Write the status if it has changed, and look for changes of the manifests."""
        self._status.write()
        return super().poll()


class _Status:
    """The problems of each node, as the agents have told them last."""

    def __init__(self, files: ClusterFiles, count: int) -> None:
        self._files = files
        self._count = count
        self._told: dict[str, ToldProblems] = {}
        self._is_new = False

    def tell(self, agent: Agent, problems: list[str]) -> None:
        """Take the problems of an agent; a line of the log names each that begins or ends."""
        node = agent.options.node
        self._is_new |= node not in self._told
        self._is_new |= self._told.setdefault(node, ToldProblems(f"{node}: ")).tell(problems)

    def write(self) -> None:
        """Write them if they have changed, and each agent has told its own."""
        if self._is_new and len(self._told) == self._count:
            with suppress(OSError):  # a full disk; the next poll tries again
                self._files.write_status({name: each.problems for name, each in self._told.items() if each.problems})
                self._is_new = False


def main() -> int:
    """Run the agents of the nodes that are on record in the state folder, which the only argument names."""
    state_dir = Path(sys.argv[1])
    files = ClusterFiles(state_dir)
    files.write_process()
    layout = files.layout()
    if layout is None:  # `nodes down` was faster
        return 0
    stop = os.eventfd(0)
    # Each agent has sockets of its own.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        with _server(files), ExitStack() as stack:
            # Only now: the server's process must not have this handler before its program is loaded.
            signal.signal(signal.SIGTERM, lambda *_: os.eventfd_write(stop, 1))
            for place in layout.places():
                stack.enter_context(held_node(Node(place.name, state_dir)))
            agents = [stack.enter_context(each) for each in _agents(layout, state_dir)]
            status = _Status(files, len(agents))
            source = _Source(layout.manifests, status)
            serve(source, Cluster(layout.cluster_cidrs), agents, stop, status.tell)
    except Exception as error:  # noqa: BLE001 -- the log has it, and `nodes up` shows it
        say(f"Error: {message_of(error)}")
        return 1
    return 0


def _agents(layout: Layout, state_dir: Path) -> Iterator[Agent]:
    for place in layout.places():
        node = Node(place.name, state_dir)
        options = Options(
            place.name,
            Backend(layout.backend),
            cluster_cidrs=layout.cluster_cidrs,
            forwarding=True,
            network_list=node.conf_dir / NETWORK_LIST,
            state_dir=agent_folder(node),
        )
        with open_namespace(str(node.netns)) as namespace:
            yield Agent(options, namespace, partial(_say_of, place.name))


def _say_of(node: str, change: str) -> None:
    say(f"{node}: {change}")


@contextmanager
def _server(files: ClusterFiles) -> Iterator[None]:
    """Run the server of plugins for the with block."""
    arguments = [*command("launch.server.server"), "--socket", str(files.socket)]
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            syscalls.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() == parent:
                os.execv(arguments[0], arguments)  # noqa: S606 -- no shell is wanted
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
