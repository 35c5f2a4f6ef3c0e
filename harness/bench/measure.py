"""The measurements. Each gives the suites their turns within one loop, so that all meet the same conditions."""

import os
from collections.abc import Callable, Sequence
from typing import Final

from harness.bench.attachments import Caller
from harness.bench.population import PopulationError
from harness.bench.process import Ended, Request, run_chains, run_one
from harness.bench.recording import Extent, Recording, Work
from harness.bench.stand import Stand, attached_to, furnish
from harness.bench.subjects import Suite
from harness.bench.summary import in_turns
from harness.bench.usage import cpu_of, memory_of
from harness.networks import NetworkList
from harness.site import Site

__all__ = ["Bench"]

_NOTHING: Final = "/bin/true"
_WARM_UP: Final = 2
_CPU_BATCHES: Final = 4


class Bench:
    """Measures `suites` on `networks`, and says to `progress` what it is doing."""

    def __init__(
        self, site: Site, suites: Sequence[Suite], extent: Extent, *, progress: Callable[[str], object]
    ) -> None:
        """Have all nodes made on `site`."""
        self.recording = Recording()
        self._site = site
        self._suites = suites
        self._extent = extent
        self._progress = progress

    def measure(self, networks: Sequence[NetworkList]) -> Recording:
        """Measure everything. Raises PluginFailedError, PluginNotFoundError, ServerError, OSError."""
        self._overhead()
        self._inquiries(networks[0])
        for network in networks:
            self._attachments(network)
        for network in networks:
            self._crowds(network)
        return self.recording

    def _overhead(self) -> None:
        """Execute a program that does nothing: what of every time below is not the plugin's."""
        self._begin(f"nodes {self._site.name}-N; {_NOTHING}: what the measurement itself takes")
        ground = self._site.ground()
        request = Request(_NOTHING, dict(os.environ), b"{}")
        for _ in range(self._extent.rounds):
            ended = ground.run(run_one, request, timeout=self._extent.timeout)
            self.recording.overhead.append(ended.seconds)
        ground.close()

    def _inquiries(self, network: NetworkList) -> None:
        """VERSION and STATUS, of the first plugin."""
        self._begin("VERSION, STATUS")
        ground = self._site.ground()
        callers = [self._caller(suite, network) for suite in self._suites]
        with_status = {caller.suite.name for caller in callers if ground.run(caller.has_status)}
        for caller in in_turns(callers, self._extent.rounds):
            ended = ground.run(caller.version)
            self.recording.add(caller.suite.name, Work("VERSION"), ended.seconds)
            if caller.suite.name in with_status:
                ended = ground.run(caller.status)
                self.recording.add(caller.suite.name, Work("STATUS"), ended.seconds)
        ground.close()

    def _attachments(self, network: NetworkList) -> None:
        """ADD and DEL, one after the other, on nodes with few pods and with many; then what they cost."""
        stands = [stand for pods in self._extent.pods for stand in self._stands(network, pods)]
        self._begin(f"{network.name}: ADD and DEL, on nodes with {_listed(self._extent.pods)} pods")
        (netns,) = self._site.pods(1)
        for stand in in_turns(stands, _WARM_UP):
            attached = attached_to(netns)
            stand.add(attached)
            stand.delete(attached)
        for stand in in_turns(stands, self._extent.rounds):
            attached = attached_to(netns)
            self._note(stand, "ADD", stand.add(attached))
            self._note(stand, "DEL", stand.delete(attached))
        self._begin(f"{network.name}: CPU time and memory")
        few = [stand for stand in stands if stand.pods == self._extent.pods[0]]
        for stand in in_turns(few, 1):
            memory = memory_of(self._site, stand)
            if memory is not None:
                self.recording.memory.append(memory)
        for stand in in_turns(few, _CPU_BATCHES):
            self.recording.cpu += cpu_of(self._site, stand, self._extent.batch)
        for stand in stands:
            stand.ground.close()

    def _stands(self, network: NetworkList, pods: int) -> list[Stand]:
        if pods:
            self._begin(f"{network.name}: filling nodes with what {pods} pods leave")
        suites = [suite for suite in self._suites if not (pods and suite.brief)]
        try:
            return [furnish(self._site, self._caller(suite, network), pods) for suite in suites]
        except PopulationError as error:
            self._begin(f"left out: {error}")
            return []

    def _note(self, stand: Stand, verb: str, executions: Sequence[tuple[str, Ended]]) -> None:
        network = stand.caller.network.name
        total = sum(ended.seconds for _, ended in executions)
        self.recording.add(stand.suite, Work(verb, network, pods=stand.pods), total)
        if len(executions) > 1:
            for plugin, ended in executions:
                self.recording.add(stand.suite, Work(verb, network, plugin, pods=stand.pods), ended.seconds)

    def _crowds(self, network: NetworkList) -> None:
        """Many ADDs at once, each time on a node that has had none; then as many DELs."""
        suites = [suite for suite in self._suites if not suite.brief]
        for at_once in self._extent.at_once:
            self._begin(f"{network.name}: {at_once} at once on a cold node")
            namespaces = self._site.pods(at_once)
            for suite in in_turns(suites, self._extent.repetitions):
                caller = self._caller(suite, network)
                ground = self._site.ground()
                pods = [attached_to(netns) for netns in namespaces]
                for verb, chain in (("ADD", caller.add), ("DEL", caller.delete)):
                    seconds = ground.run(run_chains, [chain(pod) for pod in pods], timeout=self._extent.timeout)
                    self.recording.add(suite.name, Work(verb, network.name, at_once=at_once, cold=True), seconds)
                ground.close()

    def _begin(self, what: str) -> None:
        """Say what comes next. Raises ServerError where a server is gone: from then on something else is measured."""
        for suite in self._suites:
            if suite.server is not None:
                suite.server.require_running()
        self._progress(what)

    def _caller(self, suite: Suite, network: NetworkList) -> Caller:
        return Caller(suite, network, timeout=self._extent.timeout)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)
