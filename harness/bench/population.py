"""A node that has had thousands of pods: the leftovers of their ADDs, written in bulk.

The interfaces of those pods are not made. Reservations are files in the format of the reference's host-local, which is
the interchange format between suites. Masquerading copies that of the one pod that the suite itself has added: as our
elements of nftables, or as copies of its chains and rules of iptables in one `iptables-restore`.
"""

import os
import re
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_interface, ip_network
from itertools import islice
from typing import Final, NamedTuple

from firewall import masquerade_nft
from firewall.owner import Owner
from firewall.tables import Address, Interface, Tables
from harness.bench.attachments import Attached
from harness.libcni.networks import NetworkList
from harness.runtime.node import Node
from netlink.netfilter import Netfilter

_HOST_LOCAL: Final = "host-local"
_IFNAME: Final = "eth0"
_IPTABLES: Final = {4: "iptables", 6: "ip6tables"}
_CHAIN = re.compile(r"^:(CNI-[0-9a-f]+) ", re.MULTILINE)


class PopulationError(Exception):
    """The node cannot be filled as wanted."""


class _Pod(NamedTuple):
    """A pod that does not exist: its container ID, and an address of each range set, with prefix length."""

    container_id: str
    addresses: tuple[Interface, ...]


def populate(node: Node, network: NetworkList, present: Attached, count: int) -> None:
    """Write the leftovers of `count` more pods on a node; `present` is the pod that it has already.

    Raises PopulationError, NetlinkError, OSError.
    """
    if not count:
        return
    ipam = _ipam(network)
    folder = node.var_lib_cni / "networks" / network.name
    if not folder.is_dir():
        raise PopulationError(f"network {network.name} keeps its reservations in a folder of its own")
    pods = list(islice(_pods(ipam, {path.name for path in folder.iterdir()}), count))
    if len(pods) < count:
        raise PopulationError(f"network {network.name} has room for {len(pods)} pods more, not for {count}")
    for pod in pods:
        for address in pod.addresses:
            (folder / str(address.ip)).write_bytes(f"{pod.container_id}\r\n{_IFNAME}".encode())
    for range_set, address in enumerate(pods[-1].addresses):
        (folder / f"last_reserved_ip.{range_set}").write_text(str(address.ip))
    if any(plugin.raw.get("ipMasq") for plugin in network.plugins):
        node.run(_masquerade, network.name, present, pods)


def _ipam(network: NetworkList) -> Mapping[str, object]:
    for plugin in network.plugins:
        ipam = plugin.raw.get("ipam")
        if isinstance(ipam, dict) and ipam.get("type") == _HOST_LOCAL:
            return ipam
    raise PopulationError(f"network {network.name}: no plugin has {_HOST_LOCAL} for its IPAM, so it cannot be filled")


def _pods(ipam: Mapping[str, object], taken: set[str]) -> Iterator[_Pod]:
    ranges = ipam.get("ranges") or [[ipam]]
    if not isinstance(ranges, list):
        raise PopulationError(f"ranges: expected a list, got {ranges!r}")
    hosts = [_free(range_set[0], taken) for range_set in ranges]
    for addresses in zip(*hosts, strict=False):
        yield _Pod(uuid.uuid4().hex + uuid.uuid4().hex, addresses)


def _free(first: Mapping[str, str], taken: set[str]) -> Iterator[Interface]:
    """Return the free addresses of a range, in the order in which they would be given away."""
    network = ip_network(first["subnet"], strict=False)
    gateway = str(first.get("gateway") or network[1])
    begin = ip_address(first.get("rangeStart") or network[1])
    end = ip_address(first.get("rangeEnd") or network[-2])
    address: Address = begin
    while int(address) <= int(end):
        if str(address) != gateway and str(address) not in taken:
            yield ip_interface(f"{address}/{network.prefixlen}")
        address += 1


def _masquerade(network: str, present: Attached, pods: Sequence[_Pod]) -> None:
    """Masquerade in the way of the present pod: by our elements of nftables, or by iptables."""
    with Netfilter() as netfilter:
        tables = Tables(lambda: netfilter, os.environ)
        if masquerade_nft.masqueraded(tables):
            for pod in pods:
                masquerade_nft.apply(tables, Owner(network, pod.container_id, _IFNAME), pod.addresses)
            return
    for version, program in _IPTABLES.items():
        saved = _run([f"{program}-save", "-t", "nat"])
        if chain := _CHAIN.search(saved):
            lines = [line for line in saved.splitlines() if chain[1] in line]
            _run([f"{program}-restore", "--noflush"], _copies(lines, chain[1], present, pods, version))


def _copies(lines: Sequence[str], chain: str, present: Attached, pods: Sequence[_Pod], version: int) -> str:
    ips = (present.result or {}).get("ips")
    present_addresses = [ip_interface(ip["address"]) for ip in ips] if isinstance(ips, list) else []
    (own,) = [address for address in present_addresses if address.version == version]
    copies = ["*nat"]
    for pod in pods:
        (address,) = [address for address in pod.addresses if address.version == version]
        # As long as the suite's own name, and unused: a hash of another container ID.
        replacements = {
            chain: f"CNI-{pod.container_id[: len(chain) - len('CNI-')]}",
            present.attachment.container_id: pod.container_id,
            f"{own.ip}/": f"{address.ip}/",
        }
        for line in lines:
            copy = line
            for old, new in replacements.items():
                copy = copy.replace(old, new)
            copies.append(copy)
    return "\n".join([*copies, "COMMIT", ""])


def _run(command: Sequence[str], script: str = "") -> str:
    try:
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        return ""  # the program is not installed, so it masquerades no pods
    except subprocess.CalledProcessError as error:
        raise PopulationError(f"{' '.join(command)}: {error.stderr.strip()}") from error
    return done.stdout
