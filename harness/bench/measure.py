"""The measurements of a run. Each gives the suites their turns in one loop, so that all meet the same conditions."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from harness.bench.attachments import Attached, attached_to
from harness.bench.measurements import BenchExtent, Measurements, Memory, Work, in_turns
from harness.bench.population import PopulationError
from harness.bench.process import ProcessRequest, TimedExecution, run_one
from harness.bench.report import Findings, machine
from harness.bench.resources import ControlGroupError, control_group, stopped_at_its_result
from harness.bench.suite_node import SuiteNode
from harness.bench.suites import BenchSuite, default_networks, suite_size
from harness.libcni.networks import NetworkList
from harness.runtime.site import Site

_NOTHING: Final = "/bin/true"
_WARM_UP: Final = 2  # rounds that are not counted: the first executions read files from the disk
_CPU_BATCHES: Final = 4


class Bench:
    """Measures `suites` on `networks`, and reports its current step to `progress`."""

    def __init__(
        self, site: Site, suites: Sequence[BenchSuite], extent: BenchExtent, *, progress: Callable[[str], object]
    ) -> None:
        """Have all nodes made on `site`."""
        self.recording = Measurements()
        self._site = site
        self._suites = suites
        self._extent = extent
        self._progress = progress
        self._counted = True

    def measure(self, networks: Sequence[NetworkList]) -> Measurements:
        """Measure everything. Raises PluginFailedError, PluginNotFoundError, ServerError, OSError."""
        try:
            with control_group(self._site.name):
                pass
        except (ControlGroupError, OSError) as error:
            self._progress(f"CPU time is left out: {error}")
            self._counted = False
        self._inquiries(networks[0])
        for network in networks:
            self._attachments(network)
        for network in networks:
            self._crowds(network)
        return self.recording

    def _inquiries(self, network: NetworkList) -> None:
        """VERSION and STATUS, of the first plugin; beside a program that does nothing."""
        self._progress(f"nodes {self._site.name}-N; VERSION, STATUS; {_NOTHING}: what the measurement itself takes")
        with ExitStack() as closing:
            nodes = [closing.enter_context(self._node(suite, network)) for suite in self._suites]
            with_status = {node.suite for node in nodes if node.spawner.call(node.caller.has_status)}
            nothing = ProcessRequest(_NOTHING, dict(os.environ), b"{}")
            for node in in_turns(nodes, self._extent.rounds):
                if node is nodes[0]:
                    ended = node.spawner.call(run_one, nothing, timeout=self._extent.timeout)
                    self.recording.overhead.append(ended.seconds)
                ended = node.spawner.call(node.caller.version)
                self.recording.add(node.suite, Work("VERSION"), ended.seconds)
                if node.suite in with_status:
                    ended = node.spawner.call(node.caller.status)
                    self.recording.add(node.suite, Work("STATUS"), ended.seconds)

    def _attachments(self, network: NetworkList) -> None:
        """ADD and DEL, one after the other, on nodes with few pods and with many; then their CPU time and memory."""
        with ExitStack() as closing:
            nodes = [node for pods in self._extent.pods for node in self._filled(network, pods, closing)]
            numbers = ", ".join(f"{number:,}" for number in self._extent.pods)
            self._progress(f"{network.name}: ADD and DEL, on nodes with {numbers} pods")
            (netns,) = self._site.pods(1)
            for number, node in enumerate(in_turns(nodes, _WARM_UP + self._extent.rounds)):
                pod = attached_to(netns)
                for verb in ("ADD", "DEL"):
                    executions = node.one(verb, pod)
                    if number >= _WARM_UP * len(nodes):
                        self._note(node, verb, executions)
                node.settle()
            self._progress(f"{network.name}: CPU time and memory")
            few = [node for node in nodes if node.pods == self._extent.pods[0]]
            for node in few:
                self._memory(node)
            for node in in_turns(few, _CPU_BATCHES if self._counted else 0):
                pods = [attached_to(netns) for netns in self._site.pods(self._extent.batch)]
                for verb in ("ADD", "DEL"):
                    work = Work(verb, network.name, pods=node.pods)
                    self.recording.add(node.suite, work, node.each_counted(verb, pods), cpu=True)

    def _filled(self, network: NetworkList, pods: int, closing: ExitStack) -> list[SuiteNode]:
        if pods:
            self._progress(f"{network.name}: filling nodes with what {pods} pods leave")
        suites = [suite for suite in self._suites if not (pods and suite.brief)]
        try:
            return [closing.enter_context(self._node(suite, network)).fill(self._site, pods=pods) for suite in suites]
        except PopulationError as error:
            self._progress(f"left out: {error}")
            return []

    def _memory(self, node: SuiteNode) -> None:
        pod = attached_to(self._site.pods(1)[0])
        server = node.server.pid if node.server is not None else None
        request = next(node.caller.add(pod))
        seen = node.spawner.call(stopped_at_its_result, request, server, self._extent.timeout)
        node.one("DEL", pod)
        if seen is not None:
            network = node.caller.network.name
            self.recording.memory.append(Memory(network, node.suite, seen.peak_rss, seen.server_pss))

    def _note(self, node: SuiteNode, verb: str, executions: Sequence[tuple[str, TimedExecution]]) -> None:
        network = node.caller.network.name
        total = sum(ended.seconds for _, ended in executions)
        self.recording.add(node.suite, Work(verb, network, pods=node.pods), total)
        if len(executions) > 1:
            for plugin, ended in executions:
                self.recording.add(node.suite, Work(verb, network, plugin, pods=node.pods), ended.seconds)

    def _crowds(self, network: NetworkList) -> None:
        """Many ADDs at once, each time on a node without any ADD before; then as many DELs."""
        suites = [suite for suite in self._suites if not suite.brief]
        for at_once in self._extent.at_once:
            self._progress(f"{network.name}: {at_once} at once on a cold node")
            for suite in in_turns(suites, self._extent.repetitions):
                with self._node(suite, network) as node:
                    self._crowd(node, [attached_to(netns) for netns in self._site.pods(at_once)])

    def _crowd(self, node: SuiteNode, pods: Sequence[Attached]) -> None:
        for verb in ("ADD", "DEL"):
            work = Work(verb, node.caller.network.name, at_once=len(pods), cold=True)
            if self._counted:
                seconds, cpu_seconds = node.at_once_counted(verb, pods)
                self.recording.add(node.suite, work, cpu_seconds, cpu=True)
            else:
                seconds = node.at_once(verb, pods)
            self.recording.add(node.suite, work, seconds)

    def _node(self, suite: BenchSuite, network: NetworkList) -> SuiteNode:
        return SuiteNode(self._site, suite, network, timeout=self._extent.timeout, counted=self._counted)


def run_bench(
    suites: Sequence[BenchSuite],
    networks: Sequence[NetworkList],
    extent: BenchExtent,
    *,
    state_dir: Path,
    progress: Callable[[str], object],
) -> Findings:
    """Measure suites on `networks`; if that is empty, on a bridge without and with masquerading.

    Raises ServerError, PluginFailedError, PluginNotFoundError, NodeError, OSError. In each case, and when interrupted,
    it removes everything that it has made.
    """
    networks = networks or default_networks()
    where = machine()
    sizes = [suite_size(suite, networks) for suite in suites]
    with Site(state_dir, "bench") as site:
        recording = Bench(site, suites, extent, progress=progress).measure(networks)
    return Findings(recording, sizes, networks, extent, where)
