"""Whether ports cost more on a node that has many: `unshare --net -- python -m tools.bench.ports`, as root.

Leads ports of both families to one pod after the other by netlink, then takes them away; prints the times of the first
pods beside those of the last. Processes and links would cost much more than that, and are left out.
"""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from ipaddress import ip_interface
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from firewall import port_mappings_nft
from firewall.owner import Owner
from firewall.port_mapping import Forwarding, PortMapping
from firewall.tables import Tables
from netlink.netfilter import Netfilter

__all__ = ["main"]

_COMPARED = 50
_LINES_OF_NEW = 3  # of /proc/net/dev: two of its head, and lo
_FIRST_PORT = 2000


def main(arguments: list[str]) -> int:
    """Measure and print; return 1 if the last ADDs took more than 1.1 of the first ones' lower quartile."""
    parser = ArgumentParser(prog="python -m tools.bench.ports", description=__doc__)
    parser.add_argument("--pods", type=int, default=500, metavar="N")
    parser.add_argument("--ports", type=int, default=32, metavar="N", help="of each pod, for both families")
    options = parser.parse_args(arguments)
    if len(Path("/proc/self/net/dev").read_text().splitlines()) > _LINES_OF_NEW:
        sys.exit("this network has interfaces: run it in a new one, by `unshare --net`")
    asked = [_forwarding(pod, options.ports) for pod in range(options.pods)]
    owners = [Owner("net", f"pod-{pod}", "eth0") for pod in range(options.pods)]
    with Netfilter() as netfilter:
        tables = Tables(lambda: netfilter, dict(os.environ))
        added = _times(lambda pod: port_mappings_nft.apply(tables, owners[pod], asked[pod]), options.pods)
        removed = _times(lambda pod: port_mappings_nft.remove(tables, owners[pod]), options.pods)
    ratio = _show("ADD", added[1:])  # the first one makes the table
    _show("DEL", removed[:-1])
    return int(ratio > 1.1)  # noqa: PLR2004 -- the issue's target


def _forwarding(pod: int, count: int) -> Forwarding:
    addresses = [ip_interface(f"10.88.{pod // 250 + 1}.{pod % 250 + 2}/16"), ip_interface(f"fd00:88::{pod + 2:x}/64")]
    mappings = [
        PortMapping("tcp", _FIRST_PORT + pod * count + port, address.ip, 8000 + port)
        for address in addresses
        for port in range(count)
    ]
    return Forwarding(mappings=mappings, pod=addresses, interfaces={address.ip: "cni0" for address in addresses})


def _times(work: Callable[[int], object], pods: int) -> list[float]:
    times = []
    for pod in range(pods):
        before = perf_counter()
        work(pod)
        times.append(perf_counter() - before)
    return times


def _show(verb: str, times: list[float]) -> float:
    first, last = times[:_COMPARED], times[-_COMPARED:]
    low_first, low_last = (quantiles(each)[0] for each in (first, last))
    medians = f"first {median(first) * 1e3:.2f} ms, last {median(last) * 1e3:.2f} ms"
    quarter = f"lower quartiles {low_first * 1e3:.2f} and {low_last * 1e3:.2f} ms, ratio {low_last / low_first:.2f}"
    sys.stdout.write(f"{verb}: {medians}; {quarter}\n")
    return low_last / low_first


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
