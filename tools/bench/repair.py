"""How long pods are without their rules: `python -m tools.bench.repair`, as root, on a node made for it.

Pods of a bridge that masquerades, with host ports if there is a plugin `portmap`. All rules are flushed; then the time
is taken until every one is there again: until `cni-harness repair` has ended, and with one that watches. The pods'
executables are served. The processor time of the command has that of the plugins' launchers; the rest is the server's.
"""

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from harness.bench.resources import process_tree
from harness.bench.suite_node import Spawner, serving
from harness.libcni.cache import ResultCache
from harness.libcni.execute import Executor
from harness.libcni.networks import NetworkList, parse_network_list
from harness.libcni.operations import Libcni
from harness.libcni.request import ContainerAttachment
from harness.runtime.node import Node
from harness.runtime.site import Site
from launch.installation import plugin_names
from netlink.namespace import entered, open_namespace
from netlink.netfilter import Netfilter
from netlink.nft_wire import INET
from netlink.nftables import NftTable

_FIRST_PORT: Final = 20_000
_LOOK_S: Final = 0.01
"""Between two looks while it watches: each costs the machine some milliseconds."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_POINT_ONE: Final = 0.1


def main(arguments: list[str]) -> int:
    """Measure and print a line for each way."""
    parser = ArgumentParser(prog="python -m tools.bench.repair", description=__doc__)
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--ports", type=int, default=3, help="of each pod")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        state = Path(stack.enter_context(TemporaryDirectory(prefix="cni-harness-repair-", dir="/var/tmp")))
        site = stack.enter_context(Site(state, "repair"))
        node = site.node()
        spawner = Spawner(node, None)
        stack.callback(spawner.close)
        server = stack.enter_context(serving(spawner, node.folder.name))
        bin_dir = server.bin_dir
        _add(site, node, bin_dir, options.pods, options.ports)
        namespace = stack.enter_context(open_namespace(str(node.netns)))
        with entered(namespace):
            netfilter = stack.enter_context(Netfilter())
        counting = _Rules(netfilter)
        command = [
            *(sys.executable, "-m", "harness.cli.main", "repair", "--jobs", str(options.jobs)),
            *("--node", str(node.name), "--state-dir", str(state), "--bin-dir", str(bin_dir)),
        ]
        begun = _seconds_of(server.pid)
        runs = [_by_command(node, command, counting) for _ in range(options.rounds)]
        served = (_seconds_of(server.pid) - begun) / options.rounds
        with _watching(command):
            watched = [_watched(node, counting) for _ in range(options.rounds)]
    ports = options.pods * options.ports if "portmap" in plugin_names() else 0
    _say(f"{options.pods} pods with {ports} host ports, {options.rounds} rounds, {os.cpu_count()} processors")
    by_command = [taken for taken, _ in runs]
    for title, taken in (("cni-harness repair", by_command), ("--watch, from the flush on", watched)):
        _say(f"{title}: median {median(taken) * 1000:.0f} ms, from {min(taken) * 1000:.0f} to {max(taken) * 1000:.0f}")
    own = median(cpu for _, cpu in runs)
    _say(
        f"processor time of a repair: {own * 1000:.0f} ms of the command (median), {served * 1000:.0f} ms of the server"
    )
    return 0


class _Rules:
    """Counts the elements of all sets in the tables of family inet, for those that have as many as now."""

    def __init__(self, netfilter: Netfilter) -> None:
        self._tables = [NftTable(netfilter, INET, name) for name in ("cni_harness_masquerade", "cni_harness_portmap")]
        self._whole = self._count()

    def are_back(self) -> bool:
        """Tell whether all elements are there."""
        return self._count() == self._whole

    def _count(self) -> list[int]:
        return [sum(len(table.elements(name)) for name in table.sets()) for table in self._tables]


def _add(site: Site, node: Node, bin_dir: Path, pods: int, ports: int) -> None:
    network = _network()
    cache = ResultCache(node.var_lib_cni, warn=print)
    libcni = Libcni(Executor([bin_dir]), cache, warn=print)
    for number, netns in enumerate(site.pods(pods)):
        mapped = range(_FIRST_PORT + number * ports, _FIRST_PORT + (number + 1) * ports)
        mappings = [{"hostPort": port, "containerPort": port, "protocol": "tcp"} for port in mapped]
        attachment = ContainerAttachment(f"{number:064x}", netns, "eth0", capability_args={"portMappings": mappings})
        node.run(libcni.add, network, attachment)


def _network() -> NetworkList:
    ipam = {"type": "host-local", "ranges": [[{"subnet": "10.77.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}
    plugins: list[dict[str, object]] = [
        {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "ipam": ipam}
    ]
    if "portmap" in plugin_names():
        plugins.append({"type": "portmap", "capabilities": {"portMappings": True}})
    return parse_network_list(json.dumps({"cniVersion": "1.0.0", "name": "net", "plugins": plugins}).encode())


def _by_command(node: Node, command: list[str], rules: _Rules) -> tuple[float, float]:
    """Return the seconds that the command took, and its processor time in seconds; then all rules are there."""
    _flush(node)
    before = getrusage(RUSAGE_CHILDREN)
    started = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    taken = time.monotonic() - started
    after = getrusage(RUSAGE_CHILDREN)
    if not rules.are_back():
        raise RuntimeError("the repair has left rules out")
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _seconds_of(server: int) -> float:
    """Return the processor time of a server and of all its workers until now, in seconds."""
    ticks = 0
    for pid in process_tree(server):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ends meanwhile, and counts as its parent's
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    return ticks / _TICKS


def _watched(node: Node, rules: _Rules) -> float:
    """Return the seconds from the flush until all rules are there."""
    started = time.monotonic()
    _flush(node)
    taken = _until(rules, started)
    time.sleep(_POINT_ONE)  # it looks again, as its own changes were announced, too
    return taken


def _until(rules: _Rules, started: float) -> float:
    while not rules.are_back():
        time.sleep(_LOOK_S)
    return time.monotonic() - started


def _flush(node: Node) -> None:
    node.run(subprocess.run, ["nft", "flush", "ruleset"], check=True)


@contextmanager
def _watching(command: list[str]) -> Iterator[None]:
    """Have a repair watch, after its first look, for the with block."""
    with subprocess.Popen([*command, "--watch"], stderr=subprocess.PIPE, text=True) as process:
        try:
            if process.stderr is None or "Repaired" not in process.stderr.readline():
                raise RuntimeError("the watching repair did not begin")
            yield
        finally:
            process.terminate()
            _say(process.stderr.read().rstrip() if process.stderr is not None else "")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
