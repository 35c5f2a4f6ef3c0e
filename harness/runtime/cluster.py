"""Many nodes on one machine: their names, addresses and ranges, and the files that keep them on record."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_interface, ip_network
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from harness.files import remove_tree, write_atomically
from harness.process_stat import process_stat

Network: TypeAlias = IPv4Network | IPv6Network
Interface: TypeAlias = IPv4Interface | IPv6Interface

UNDERLAY: Final = "underlay"
"""The name of the namespace with the bridges and the router."""
UPLINK: Final = "eth0"
"""The link of a node that leads to the others."""

_UNDERLAY: Final = {4: ip_network("198.18.0.0/15"), 6: ip_network("2001:db8::/48")}
"""RFC 2544 and RFC 3849: no machine has such addresses."""
_SUBNET_PREFIX: Final = {4: 22, 6: 64}
_BITS: Final = {4: 32, 6: 128}
_POD_PREFIX: Final = {4: 24, 6: 64}
"""Of a node's range, as kube-controller-manager has it; longer if there are more nodes than such ranges."""
_LONGEST_POD_PREFIX: Final = {4: 29, 6: 125}
_STOP_S: Final = 10.0
_PAUSE_S: Final = 0.02


class ClusterError(Exception):
    """The nodes cannot be made."""


class Place(NamedTuple):
    """One node of a layout."""

    number: int
    """From 1."""
    subnet: int
    """From 0."""
    addresses: tuple[Interface, ...]
    pod_cidrs: tuple[Network, ...]

    @property
    def name(self) -> str:
        """The name of the node, of its network namespace, and of its port of the underlay's bridge."""
        return f"node-{self.number}"

    @property
    def mac(self) -> str:
        """The hardware address of its uplink: all others know it beforehand."""
        return f"02:00:00:00:{self.number >> 8:02x}:{self.number & 0xFF:02x}"

    def manifest(self) -> dict[str, Any]:
        """Return the Node object."""
        ranges = [str(each) for each in self.pod_cidrs]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name},
            "spec": {"podCIDR": ranges[0], "podCIDRs": ranges},
            "status": {"addresses": [{"type": "InternalIP", "address": str(each.ip)} for each in self.addresses]},
        }


class Router(NamedTuple):
    """The bridge of a subnet; it has the router's addresses there."""

    bridge: str
    addresses: tuple[Interface, ...]
    mac: str


@dataclass(frozen=True)
class Layout:
    """The nodes that `nodes up` is to make."""

    count: int
    subnets: int
    backend: str
    """Of the agents: auto, host-gw or vxlan."""
    cluster_cidrs: tuple[Network, ...]
    """The ranges of all pods, at most one of each family."""
    manifests: Path
    """The folder of the Node objects."""

    def check(self) -> None:
        """Raise ClusterError if the ranges are too small, or not fit for pods."""
        versions = [each.version for each in self.cluster_cidrs]
        if not versions or len(set(versions)) < len(versions):
            raise ClusterError("wanted one range for pods, or one of each family")
        if self.subnets > self.count:
            raise ClusterError(f"{self.subnets} subnets are more than {self.count} nodes")
        for cidr in self.cluster_cidrs:
            if cidr.overlaps(_UNDERLAY[cidr.version]):
                raise ClusterError(f"{cidr} overlaps {_UNDERLAY[cidr.version]}, the addresses of the nodes")
            if self._pod_prefix(cidr) > _LONGEST_POD_PREFIX[cidr.version]:
                raise ClusterError(f"{cidr} is too small for {self.count} nodes")

    def places(self) -> Iterator[Place]:
        """Yield the nodes, which are spread over the subnets in turns."""
        versions = [each.version for each in self.cluster_cidrs]
        for number in range(1, self.count + 1):
            row, subnet = divmod(number - 1, self.subnets)
            ranges = (_part(cidr, self._pod_prefix(cidr), number) for cidr in self.cluster_cidrs)
            addresses = (_host(version, subnet, row + 2) for version in versions)
            yield Place(number, subnet, tuple(addresses), tuple(ranges))

    def routers(self) -> list[Router]:
        """Return the router of each subnet."""
        versions = [each.version for each in self.cluster_cidrs]
        return [
            Router(f"subnet-{at + 1}", tuple(_host(each, at, 1) for each in versions), f"02:00:00:01:00:{at + 1:02x}")
            for at in range(self.subnets)
        ]

    def write_manifests(self) -> None:
        """Write the Nodes that are missing; others may have been changed on purpose. Raises OSError."""
        self.manifests.mkdir(parents=True, exist_ok=True)
        for place in self.places():
            path = self.manifest_of(place)
            if not path.exists():
                write_atomically(path, json.dumps(place.manifest(), indent=1).encode() + b"\n")

    def manifest_of(self, place: Place) -> Path:
        """Return the file of a node's Node."""
        return self.manifests / f"{place.name}.json"

    def _pod_prefix(self, cidr: Network) -> int:
        # The first range stays free, so that node-1 has 10.244.1.0/24.
        return max(_POD_PREFIX[cidr.version], cidr.prefixlen + self.count.bit_length())


class ClusterFiles:
    """The files of the nodes of one state folder that are no single node's."""

    def __init__(self, state_dir: Path) -> None:
        """Store the folder; nothing is made yet."""
        self.folder = state_dir / "cluster"
        self.lock = self.folder / "lock"
        self.log = self.folder / "log"
        self.socket = self.folder / "server.sock"
        self.bin_dir = self.folder / "bin"
        self.manifests = self.folder / "manifests"
        self._record = self.folder / "layout.json"
        self._process = self.folder / "process.json"
        self._status = self.folder / "status.json"

    def layout(self) -> Layout | None:
        """Return the layout on record, None if there are no nodes. Raises OSError."""
        record = _read(self._record)
        if record is None:
            return None
        ranges = tuple(ip_network(each) for each in record["clusterCIDRs"])
        return Layout(record["count"], record["subnets"], record["backend"], ranges, Path(record["manifests"]))

    def write_layout(self, layout: Layout) -> None:
        """Put it on record, before anything is made. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        record = {
            "count": layout.count,
            "subnets": layout.subnets,
            "backend": layout.backend,
            "clusterCIDRs": [str(each) for each in layout.cluster_cidrs],
            "manifests": str(layout.manifests),
        }
        write_atomically(self._record, json.dumps(record).encode())

    def remove_lock(self) -> None:
        """Remove the lock, which the caller holds, and the folder if nothing else is in it."""
        self.lock.unlink(missing_ok=True)
        with suppress(OSError):  # a user's files are in it
            self.folder.rmdir()

    def remove(self) -> None:
        """Remove the folder, when there are no nodes any more. Raises OSError."""
        self._record.unlink(missing_ok=True)
        # One that a killed `up` has just started may have read the record before, or write its own file meanwhile.
        self.end_process()
        with suppress(OSError):
            remove_tree(self.folder)
        if self.folder.exists():
            remove_tree(self.folder)

    def write_process(self) -> None:
        """Put the calling process on record, with its start: a later process may have its PID. Raises OSError."""
        stat = process_stat(os.getpid())
        record = {"pid": os.getpid(), "started": stat.started if stat is not None else 0}
        write_atomically(self._process, json.dumps(record).encode())

    def process(self) -> int | None:
        """Return the PID of the process with the agents, None if it does not run."""
        record = _read(self._process)
        stat = process_stat(record["pid"]) if record is not None else None
        if record is None or stat is None or stat.has_ended or stat.started != record["started"]:
            return None
        return int(record["pid"])

    def end_process(self) -> None:
        """End the process with the agents, if it runs, and wait for its end; by SIGKILL after 10 s."""
        deadline = time.monotonic() + _STOP_S
        while (pid := self.process()) is not None:
            number = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            time.sleep(_PAUSE_S)
        self._process.unlink(missing_ok=True)

    def write_status(self, problems: dict[str, list[str]]) -> None:
        """Tell that all agents have compared, and the problems of each node. Raises OSError."""
        write_atomically(self._status, json.dumps({"pid": os.getpid(), "problems": problems}).encode())

    def problems(self) -> dict[str, list[str]] | None:
        """Return the problems of each node; None while the agents do not run, or have not compared yet."""
        status = _read(self._status)
        if status is None or status["pid"] != self.process():
            return None
        problems: dict[str, list[str]] = status["problems"]
        return problems


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return content


def _part(network: Network, prefix: int, number: int) -> Network:
    """Return a part of a network, by its number."""
    first = int(network.network_address) + (number << _BITS[network.version] - prefix)
    return type(network)((first, prefix))


def _host(version: int, subnet: int, number: int) -> Interface:
    """Return an address of the underlay with its prefix, by the numbers of the subnet and of the host."""
    network = _part(_UNDERLAY[version], _SUBNET_PREFIX[version], subnet)
    return ip_interface(f"{network.network_address + number}/{network.prefixlen}")
