"""Measure many nodes on one machine: `python -m tools.scale [OPTION...]`, as root, in namespaces of its own.

`make scale` runs it, and puts the figures into docs/performance.md.
"""

import json
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from harness.bench.report import machine
from harness.bench.resources import memory, process_tree
from harness.output import TextTable
from harness.runtime.cluster import ClusterFiles, Layout, Place
from netlink.namespace import open_namespace
from netlink.rtnl import Rtnl
from tools.bench.pages import check_markers, markdown, write_between_markers
from tools.scale.api import api_server
from tools.scale.large import ADDRESS
from tools.scale.pods import add_pods, ends
from tools.scale.prober import Prober, ordered_pairs

_ROOT: Final = Path(__file__).resolve().parents[2]
_PAGE: Final = _ROOT / "docs" / "performance.md"
_CIDRS: Final = {4: "10.0.0.0/8", 6: "fd00:244::/48"}
_HEADINGS: Final = ("figure", "goal", "measured", "reached")
_MIB: Final = 1 << 20
_QUIET_S: Final = 1.5
_LIMIT_S: Final = 120.0
_SETTLE_S: Final = 0.3


class Figure(NamedTuple):
    """A measured value; `most` is the goal, None if there is none."""

    name: str
    value: float
    unit: str
    most: float | None = None

    def row(self) -> list[str]:
        """Return the cells of a table."""
        reached = "" if self.most is None else "yes" if self.value <= self.most else "**no**"
        goal = "" if self.most is None else f"{self.most:g} {self.unit}"
        digits = 2 if self.unit == "s" else 0
        return [self.name, goal, f"{self.value:,.{digits}f} {self.unit}", reached]


def main(arguments: list[str]) -> int:
    """Measure and print the table; return 1 if a goal was not reached or a pair has a fault."""
    options = _parser().parse_args(arguments)
    if options.pages:
        check_markers([_PAGE])
    figures: list[Figure] = []
    for figure in _figures(options):
        figures.append(figure)
        sys.stdout.write("  ".join(figure.row()) + "\n")
        sys.stdout.flush()
    if options.pages:
        where = machine()
        processors = f"{where['processor']}, {where['processors']} processors"
        conditions = f"{processors}, Linux {where['kernel']}; {time.strftime('%Y-%m-%d')}."
        table = markdown(TextTable(_HEADINGS, [each.row() for each in figures]))
        write_between_markers(_PAGE, {"nodes": f"{table}\n\n{conditions}"})
    return int(any(each.most is not None and each.value > each.most for each in figures))


def _figures(options: Namespace) -> Iterator[Figure]:
    for backend in options.backends.split(","):
        with TemporaryDirectory(prefix="cni-harness-scale-", dir="/var/tmp") as folder:
            yield from _of_cluster(options, backend, Path(folder))
    if options.peers:
        yield from _of_large(options.peers)


def _of_cluster(options: Namespace, backend: str, state_dir: Path) -> Iterator[Figure]:
    words = f"{options.nodes} nodes, {backend}"
    available = _available()
    cidrs = ",".join(_CIDRS[version] for version in options.versions)
    begin = time.monotonic()
    _cni_harness(state_dir, "up", "--count", str(options.nodes), "--backend", backend, "--cluster-cidr", cidrs)
    try:
        yield Figure(f"{words}: `nodes up`", time.monotonic() - begin, "s")
        pid = ClusterFiles(state_dir).process() or 0
        yield Figure(f"{words}: CPU of all agents until then", _cpu(pid), "s")
        begin = time.monotonic()
        pods = add_pods(state_dir, [f"pod{number}" for number in range(1, options.pods + 1)])
        yield Figure(f"{words}: {options.pods} pods on each", time.monotonic() - begin, "s")
        for version in options.versions:
            begin = time.monotonic()
            with Prober(ends(pods, version)) as prober:
                faults = prober.faults(ordered_pairs(options.nodes))
            sys.stderr.writelines(f"{fault}\n" for fault in faults[:10])
            pairs = options.nodes * (options.nodes - 1)
            yield Figure(f"{words}: faults of {pairs:,} pairs, IPv{version}", len(faults), "pairs", 0)
            yield Figure(f"{words}: all pairs asked, IPv{version}", time.monotonic() - begin, "s")
        yield Figure(f"{words}: memory of the agents' process", memory([pid]) / _MIB, "MiB")
        yield Figure(f"{words}: memory of agents and server", memory(process_tree(pid)) / _MIB, "MiB", 300)
        yield Figure(f"{words}: memory in use, kernel included", (available - _available()) / _MIB, "MiB")
        yield from _one_gone(state_dir, pid, words)
    finally:
        begin = time.monotonic()
        _cni_harness(state_dir, "down")
    yield Figure(f"{words}: `nodes down`", time.monotonic() - begin, "s")


def _one_gone(state_dir: Path, pid: int, words: str) -> Iterator[Figure]:
    """Take one Node away, and give it back; all other agents change their routes."""
    layout = ClusterFiles(state_dir).layout()
    if layout is None:
        return
    *others, last = layout.places()
    manifest = layout.manifest_of(last)
    content = manifest.read_bytes()
    with _all_routes(layout, others, last) as are_there:
        for name, change, wanted in (
            ("gone", manifest.unlink, False),
            ("back", lambda: manifest.write_bytes(content), True),
        ):
            _until_quiet(pid)
            before, begin = _cpu(pid), time.monotonic()
            change()
            while are_there() != {wanted}:
                if time.monotonic() - begin > _LIMIT_S:
                    raise SystemExit(f"not all nodes have changed within {_LIMIT_S:.0f} s")
                time.sleep(0.05)
            took = time.monotonic() - begin
            time.sleep(_SETTLE_S)  # no longer: each minute all agents compare everything
            yield Figure(f"{words}: one node {name}, CPU of all agents", _cpu(pid) - before, "s", 0.2)
            yield Figure(f"{words}: one node {name}, until all have changed", took, "s")


@contextmanager
def _all_routes(layout: Layout, places: list[Place], last: Place) -> Iterator[Callable[[], set[bool]]]:
    """Yield a function that tells whether nodes have a route of their agent to the last one."""
    address = last.pod_cidrs[0].network_address + 2
    router = {each.ip for each in layout.routers()[0].addresses}
    sockets = []
    for place in places:
        with open_namespace(f"/run/netns/{place.name}") as namespace:
            sockets.append(Rtnl(namespace))

    def are_there() -> set[bool]:
        routes = [each.route_to(ip_address(address)) for each in sockets]
        return {route is not None and route.gateway not in router for route in routes}

    try:
        yield are_there
    finally:
        for each in sockets:
            each.close()


def _of_large(peers: int) -> Iterator[Figure]:
    """Run one agent with many peers; its node is a namespace with a link to all their addresses."""
    words = f"one agent, {peers:,} peers"
    ip = ["ip", "-n", "scale"]
    subprocess.run(["ip", "netns", "add", "scale"], check=True)
    try:
        subprocess.run([*ip, "link", "add", "eth0", "up", "type", "veth", "peer", "name", "eth1"], check=True)
        subprocess.run([*ip, "link", "set", "eth1", "up"], check=True)
        subprocess.run([*ip, "address", "add", f"{ADDRESS}/15", "dev", "eth0"], check=True)
        decoded = _large(peers, "")
        yield Figure(f"{words}: CPU for IPv4 routes of decoded Nodes", decoded["seconds"], "s", 0.5)
        subprocess.run([*ip, "route", "flush", "proto", "201"], check=True)
        with api_server(peers) as port:
            whole = _large(peers, str(port))
        yield Figure(f"{words}: CPU all in, Nodes of 10 KB from an API server", whole["seconds"], "s", 4)
        yield Figure(f"{words}: resident memory", whole["MiB"], "MiB", 40)
    finally:
        subprocess.run(["ip", "netns", "del", "scale"], check=True)


def _large(peers: int, port: str) -> dict[str, float]:
    words = ["/run/netns/scale", str(peers), *([port] if port else [])]
    command = [sys.executable, "-m", "tools.scale.large", *words]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, cwd=_ROOT).stdout)
    return figures


def _cni_harness(state_dir: Path, *words: str) -> None:
    command = [sys.executable, "-m", "harness.cli.main", "--state-dir", str(state_dir), "nodes", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=_ROOT)


def _cpu(pid: int) -> float:
    """Return the seconds of CPU that the only thread of a process has used."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _until_quiet(pid: int) -> None:
    """Wait until the process does no more than look for changes now and then."""
    while True:
        before = _cpu(pid)
        time.sleep(_QUIET_S)
        if _cpu(pid) - before < 0.01:  # noqa: PLR2004 -- seconds
            return


def _available() -> int:
    """Return the memory of the machine that programs can have, in bytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m tools.scale", description=__doc__)
    parser.add_argument("--nodes", type=int, default=200, metavar="N", help="of a cluster  [%(default)s]")
    parser.add_argument("--pods", type=int, default=4, metavar="N", help="of a node  [%(default)s]")
    parser.add_argument("--backends", default="host-gw,vxlan", metavar="A,B", help="[%(default)s]")
    parser.add_argument("--versions", type=int, nargs="+", default=[4], metavar="V", help="of IP  [%(default)s]")
    parser.add_argument("--peers", type=int, default=5000, metavar="N", help="of one agent alone; 0: not measured")
    parser.add_argument("--pages", action="store_true", help="write the figures into docs/performance.md")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
