"""A node on which one suite has a network, and on which the measurement adds and deletes pods."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, Self

from harness.bench.attachments import Attached, PluginCaller, attached_to
from harness.bench.control_group import control_group
from harness.bench.population import populate
from harness.bench.process import TimedExecution
from harness.bench.server import SuiteServer, serving
from harness.bench.spawner import Spawner
from harness.bench.subjects import BenchSuite
from harness.libcni.networks import NetworkList
from harness.runtime.node import Node
from harness.runtime.site import Site

_PAUSE_S: Final = 0.05


class SuiteNode(ExitStack):
    """A node with a suite's server, if it has one, in one control group with every process that is started there."""

    node: Node
    spawner: Spawner
    server: SuiteServer | None
    caller: PluginCaller

    def __init__(
        self, site: Site, suite: BenchSuite, network: NetworkList, *, timeout: float, counted: bool = True
    ) -> None:
        """Make a node without pods; if not `counted`, without a control group.

        Raises ServerError, PluginNotFoundError, ControlGroupError, OSError.
        """
        super().__init__()
        self.suite = suite.name
        self.pods = 0
        with ExitStack() as stack:
            self.node = site.node(until=stack)
            name = self.node.folder.name
            group = stack.enter_context(control_group(name)) if counted else None
            self.spawner = Spawner(self.node, group)
            stack.callback(self.spawner.close)
            self.server = stack.enter_context(serving(self.spawner, name)) if suite.served else None
            served = (self.server.bin_dir,) if self.server is not None else ()
            self.caller = PluginCaller((*served, *suite.bin_dirs), network, timeout=timeout)
            self.push(stack.pop_all())

    def furnish(self, site: Site, pods: int = 0) -> Self:
        """Add one pod, and the reservations and masquerading of `pods` more. Raises PluginFailedError, PopulationError.

        The one pod stays, so that the network's bridge and the firewall's tables exist and remain.
        """
        standing = attached_to(site.namespace())
        self.at_once("ADD", [standing])
        populate(self.node, self.caller.network, standing, pods)
        self.pods = pods
        # DEL of an unknown pod: a suite that keeps an index of its reservations brings it up to date here.
        self.at_once("DEL", [attached_to(site.namespace())])
        return self

    def one(self, verb: str, pod: Attached) -> list[tuple[str, TimedExecution]]:
        """ADD or DEL a pod; return the type and the execution of each plugin. Raises PluginFailedError."""
        self.at_once(verb, [pod])
        return pod.executions

    def settle(self) -> None:
        """Wait a moment: the kernel may still work on a DEL, which must not count as time of another suite."""
        time.sleep(_PAUSE_S)

    def at_once(self, verb: str, pods: Sequence[Attached]) -> float:
        """ADD or DEL pods, all at once; return the seconds of wall time. Raises PluginFailedError."""
        seconds, done = self.spawner.call(self.caller.run, verb, pods)
        _take(pods, done)
        return seconds

    def at_once_counted(self, verb: str, pods: Sequence[Attached]) -> tuple[float, float]:
        """ADD or DEL pods, all at once; return the seconds of wall time and of CPU time. Raises PluginFailedError."""
        cpu_seconds, (seconds, done) = self.spawner.call_counted(self.caller.run, verb, pods)
        _take(pods, done)
        return seconds, cpu_seconds

    def each_counted(self, verb: str, pods: Sequence[Attached]) -> float:
        """ADD or DEL pods, one after the other; return the CPU seconds of one. Raises PluginFailedError."""
        cpu_seconds, done = self.spawner.call_counted(self.caller.run_each, verb, pods)
        _take(pods, done)
        return cpu_seconds / len(pods)


def _take(pods: Sequence[Attached], done: Sequence[Attached]) -> None:
    """Copy results and times into our own objects: the spawner has worked on copies."""
    for pod, copy in zip(pods, done, strict=True):
        pod.result, pod.executions = copy.result, copy.executions
