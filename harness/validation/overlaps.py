"""Addresses that two networks would both assign, because each keeps records of its own."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from netaddr import AddrFormatError, IPNetwork, IPSet

from harness.libcni.networks import NetworkList


def overlaps(networks: Sequence[NetworkList]) -> Iterator[str]:
    """Yield a line for each pair of networks whose IPAM sections name subnets that share addresses."""
    subnets = {network.name: IPSet(_subnets(network)) for network in networks}
    for (one, first), (other, second) in combinations(subnets.items(), 2):
        shared = first & second
        if shared:
            cidrs = ", ".join(str(cidr) for cidr in shared.iter_cidrs())
            yield f"{one} and {other} both give away addresses of {cidrs}"


def _subnets(network: NetworkList) -> Iterator[IPNetwork]:
    for plugin in network.plugins:
        ipam = plugin.raw.get("ipam")
        for text in _named_subnets(ipam):
            try:
                yield IPNetwork(text)
            except (AddrFormatError, ValueError):
                continue  # the IPAM plugin reports an invalid subnet


def _named_subnets(section: object) -> Iterator[str]:
    """Find the values of `subnet` at any depth: host-local has them in `ranges`, other plugins elsewhere."""
    if isinstance(section, list):
        for item in section:
            yield from _named_subnets(item)
    elif isinstance(section, dict):
        for key, value in section.items():
            if key.casefold() == "subnet" and isinstance(value, str):
                yield value
            else:
                yield from _named_subnets(value)
