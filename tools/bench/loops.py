"""The loops. In each the compared suites take turns, so that all meet the same conditions."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from harness.bench.attachments import Attached, PluginCaller, attached_to
from harness.bench.measurements import Measurements, Work, in_turns
from harness.bench.process import ProcessRequest, run_one
from harness.bench.suite_node import SuiteNode
from harness.bench.suites import MASQUERADED, OURS, PLAIN, REFERENCE, BenchSuite, default_networks
from harness.runtime.site import Site
from tools.bench.networks import CHAIN, FIVE, PORTS, chain, five, mapped_ports, ports
from tools.bench.program import ROOT, Ended, Program
from tools.bench.rows import AGAINST, NO_WORK, NOTHING, PORTS_OF_A_POD, PROGRAM_ADD, Extent
from tools.bench.subjects import DIRECT, FLOOR, PYTHON

_WARM_UP: Final = 3
_PODS_AT_ONCE: Final = 20


class Loops:
    """The loops of one run on a site; `run` runs one and returns its measurements."""

    def __init__(self, site: Site, suites: Mapping[str, BenchSuite], extent: Extent) -> None:
        """Have all nodes made on `site`."""
        self._site = site
        self._suites = suites
        self._extent = extent
        self._networks = {network.name: network for network in (*default_networks(), chain(), five(), ports())}
        self._recording = Measurements()
        self._loops: dict[str, Callable[[], None]] = {
            "one": lambda: self._one(PLAIN, (OURS, REFERENCE, FLOOR)),
            "one, ipMasq": lambda: self._one(MASQUERADED, (OURS, REFERENCE)),
            "at once": lambda: self._at_once(PLAIN, (OURS, REFERENCE, FLOOR)),
            "at once, ipMasq": lambda: self._at_once(MASQUERADED, (OURS, REFERENCE)),
            "VERSION": self._version,
            "gone": self._gone,
            "growth": self._growth,
            "chain": self._chain,
            "ports": self._ports,
            "no server": self._no_server,
            "no server, gone": self._gone_without_server,
            "program": self._program,
        }

    def run(self, loop: str) -> Measurements:
        """Run a loop. Raises PluginFailedError, PluginNotFoundError, ServerError, ControlGroupError, OSError."""
        self._recording = Measurements()
        self._loops[loop]()
        return self._recording

    def _one(self, network: str, names: Sequence[str]) -> None:
        """ADD and DEL, one after the other."""
        with ExitStack() as closing:
            nodes = [self._node(name, network, closing).fill(self._site) for name in names]
            self._add_and_delete(nodes)
            for node in in_turns(nodes, self._extent.batches):
                pods = self._pods(self._extent.batch)
                for verb in ("ADD", "DEL"):
                    self._recording.add(node.suite, Work(verb, network), node.each_counted(verb, pods), cpu=True)

    def _growth(self) -> None:
        """ADD and DEL on nodes with thousands of masqueraded addresses."""
        with ExitStack() as closing:
            counts = (0, *self._extent.elements)
            nodes = [self._node(OURS, MASQUERADED, closing).fill(self._site, pods=count) for count in counts]
            self._add_and_delete(nodes)

    def _add_and_delete(self, nodes: Sequence[SuiteNode]) -> None:
        for node in self._turns(nodes):
            (pod,) = self._pods(1)
            for verb in ("ADD", "DEL"):
                work = Work(verb, node.caller.network.name, pods=node.pods)
                self._recording.add(node.suite, work, node.at_once(verb, [pod]))
            node.settle()

    def _at_once(self, network: str, names: Sequence[str]) -> None:
        """Many ADDs at once, each time on a node that has had none; then as many DELs."""
        for name in in_turns(names, self._extent.repetitions):
            with ExitStack() as closing:
                node = self._node(name, network, closing)
                pods = self._pods(self._extent.at_once)
                for verb in ("ADD", "DEL"):
                    work = Work(verb, network, at_once=len(pods), cold=True)
                    seconds, cpu_seconds = node.at_once_counted(verb, pods)
                    self._recording.add(name, work, seconds)
                    self._recording.add(name, work, cpu_seconds, cpu=True)

    def _version(self) -> None:
        with ExitStack() as closing:
            nodes = [self._node(name, PLAIN, closing) for name in (OURS, REFERENCE)]
            for node in self._turns(nodes):
                ended = node.spawner.call(node.caller.version)
                self._recording.add(node.suite, Work("VERSION"), ended.seconds)
            count = self._extent.batch
            for node in in_turns(nodes, self._extent.batches):
                cpu_seconds, _ = node.spawner.call_counted(_versions, node.caller, count)
                self._recording.add(node.suite, Work("VERSION"), cpu_seconds / count, cpu=True)

    def _gone(self) -> None:
        """DEL as a runtime repeats it when it removes a sandbox: without namespace and result."""
        with ExitStack() as closing:
            nodes = [self._node(name, PLAIN, closing).fill(self._site) for name in (OURS, REFERENCE)]
            for node in self._turns(nodes):
                for count in (1, self._extent.gone_at_once):
                    seconds = node.at_once("DEL", [attached_to("") for _ in range(count)])
                    self._recording.add(node.suite, Work(NOTHING, PLAIN, at_once=count), seconds)

    def _chain(self) -> None:
        """ADD and DEL of a list of six plugins, and the share of each."""
        with ExitStack() as closing:
            nodes = [self._node(name, CHAIN, closing) for name in (OURS, REFERENCE)]
            for node in nodes:
                # Not `fill`: the reference's sbr fails a DEL of a pod without the interface.
                node.at_once("ADD", [attached_to(self._site.namespace(), mapped_ports(1))])
            self._whole_and_shares(nodes, ports_of_a_pod=1)

    def _ports(self) -> None:
        """ADD and DEL of a pod with many ports, on a node without others and on one with hundreds of such pods."""
        count = self._extent.pods_with_ports
        with ExitStack() as closing:
            nodes = [self._node(OURS, PORTS, closing).fill(self._site) for _ in range(2)]
            full = nodes[-1]
            for first in range(0, count, _PODS_AT_ONCE):
                numbers = range(first + 1, min(first + _PODS_AT_ONCE, count) + 1)
                pods = [attached_to(self._site.namespace(), mapped_ports(each, PORTS_OF_A_POD)) for each in numbers]
                full.at_once("ADD", pods)
            full.pods = count
            self._whole_and_shares(nodes, ports_of_a_pod=PORTS_OF_A_POD)

    def _program(self) -> None:
        """`cni-harness add`: one pod, one beside many records, and many pods by one process."""
        count, jobs = self._extent.at_once, ("--jobs", "32")
        checkouts = {OURS: ROOT} | ({AGAINST: Path(self._extent.against)} if self._extent.against else {})
        with TemporaryDirectory(prefix="cni-harness-bench-", dir="/var/tmp") as folder, ExitStack() as closing:
            for records in (0, self._extent.records):
                programs = {}
                for name, checkout in checkouts.items():
                    place = Path(folder, f"{name.replace(' ', '-')}-{records}")
                    programs[name] = Program(checkout, place, self._suites[DIRECT].bin_dirs[0])
                    closing.callback(programs[name].close)
                    programs[name].run("add", "first")
                    programs[name].copy_record(records)
                for name in in_turns(list(programs), self._extent.rounds):
                    self._note(name, Work(PROGRAM_ADD, pods=records), programs[name].run("add", "one"))
                    programs[name].run("del", "one")
                if not records:
                    many = [f"many{number}" for number in range(count)]
                    for name in in_turns(list(programs), self._extent.repetitions):
                        self._note(name, Work(PROGRAM_ADD, at_once=count), programs[name].run("add", *jobs, *many))
                        programs[name].run("del", *jobs, *many)

    def _note(self, name: str, work: Work, ended: Ended) -> None:
        self._recording.add(name, work, ended.seconds)
        self._recording.add(name, work, ended.cpu_seconds, cpu=True)

    def _whole_and_shares(self, nodes: Sequence[SuiteNode], *, ports_of_a_pod: int) -> None:
        for node in self._turns(nodes):
            (netns,) = self._site.pods(1)
            pod = attached_to(netns, mapped_ports(0, ports_of_a_pod))
            for verb in ("ADD", "DEL"):
                work = Work(verb, node.caller.network.name, pods=node.pods)
                self._recording.add(node.suite, work, node.at_once(verb, [pod]))
                for plugin, ended in pod.executions:
                    self._recording.add(node.suite, replace(work, plugin=plugin), ended.seconds)
            node.settle()

    def _no_server(self) -> None:
        """VERSION and ADD in direct execution, beside an interpreter that does nothing."""
        environ = {"PATH": os.environ.get("PATH", os.defpath)}
        nothing = ProcessRequest(sys.executable, environ, b"", ("-IS", "-c", "pass"))
        with ExitStack() as closing:
            node = self._node(DIRECT, PLAIN, closing).fill(self._site)
            for _ in self._turns([node]):
                ended = node.spawner.call(run_one, nothing, timeout=self._extent.timeout)
                self._recording.add(PYTHON, Work(NO_WORK), ended.seconds)
                ended = node.spawner.call(node.caller.version)
                self._recording.add(DIRECT, Work("VERSION"), ended.seconds)
                (pod,) = self._pods(1)
                self._recording.add(DIRECT, Work("ADD", PLAIN), node.at_once("ADD", [pod]))
                node.at_once("DEL", [pod])
                node.settle()

    def _gone_without_server(self) -> None:
        """DEL of a list of five plugins in direct execution, as a runtime repeats it, and the share of each."""
        with ExitStack() as closing:
            nodes = [self._node(name, FIVE, closing).fill(self._site) for name in (DIRECT, REFERENCE)]
            for node in self._turns(nodes):
                pod = attached_to("", mapped_ports(0))
                work = Work(NOTHING, FIVE)
                self._recording.add(node.suite, work, node.at_once("DEL", [pod]))
                for plugin, ended in pod.executions:
                    self._recording.add(node.suite, replace(work, plugin=plugin), ended.seconds)
            for node in in_turns(nodes, self._extent.batches):
                pods = [attached_to("", mapped_ports(0)) for _ in range(self._extent.batch)]
                self._recording.add(node.suite, Work(NOTHING, FIVE), node.each_counted("DEL", pods), cpu=True)

    def _turns(self, nodes: Sequence[SuiteNode]) -> Iterator[SuiteNode]:
        """Give nodes their turns; figures of the first few, the warm-up, are dropped."""
        yield from in_turns(nodes, _WARM_UP)
        self._recording = Measurements()
        yield from in_turns(nodes, self._extent.rounds)

    def _pods(self, count: int) -> list[Attached]:
        return [attached_to(netns) for netns in self._site.pods(count)]

    def _node(self, name: str, network: str, closing: ExitStack) -> SuiteNode:
        timeout = self._extent.timeout
        return closing.enter_context(
            SuiteNode(self._site, self._suites[name], self._networks[network], timeout=timeout)
        )


def _versions(caller: PluginCaller, count: int) -> None:
    for _ in range(count):
        caller.version()
