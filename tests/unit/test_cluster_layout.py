"""The addresses of many nodes on one machine: each thing has its own, inside of its range."""

from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path

import pytest

from harness.runtime.cluster import ClusterError, Layout

DUAL = ("10.244.0.0/16", "fd00:244::/48")


def layout(count: int, subnets: int, *cidrs: str) -> Layout:
    return Layout(count, subnets, "auto", tuple(ip_network(each) for each in cidrs), Path("/none"))


@pytest.mark.parametrize(
    ("count", "subnets", "cidrs"),
    [
        (1, 1, DUAL),
        (255, 1, DUAL),
        (256, 64, DUAL),
        (1000, 64, DUAL),
        (1000, 1, ("10.244.0.0/16",)),
        (30, 2, ("10.244.0.0/22", "fd00:244::/58")),
    ],
)
def test_ranges_addresses_and_macs_are_disjoint_and_inside(count: int, subnets: int, cidrs: tuple[str, ...]) -> None:
    made = layout(count, subnets, *cidrs)
    made.check()
    places, routers = list(made.places()), made.routers()

    assert [place.name for place in places] == [f"node-{number}" for number in range(1, count + 1)]
    for at, cidr in enumerate(made.cluster_cidrs):
        ranges = [place.pod_cidrs[at] for place in places]
        ends = sorted((int(each.network_address), int(each.broadcast_address)) for each in ranges)
        assert all(one[1] < other[0] for one, other in pairwise(ends))
        assert int(cidr.network_address) <= ends[0][0] <= ends[-1][1] <= int(cidr.broadcast_address)
        networks = [router.addresses[at].network for router in routers]
        assert len(set(networks)) == subnets
        assert all(place.addresses[at].network == networks[place.subnet] for place in places)
    addresses = [each.ip for place in places for each in place.addresses]
    addresses += [each.ip for router in routers for each in router.addresses]
    assert len(set(addresses)) == len(addresses)
    macs = [place.mac for place in places] + [router.mac for router in routers]
    assert len(set(macs)) == len(macs)


@pytest.mark.parametrize(
    ("count", "subnets", "cidrs", "words"),
    [
        (2, 1, (), "one range"),
        (2, 1, ("10.244.0.0/16", "10.245.0.0/16"), "one of each family"),
        (2, 3, DUAL, "3 subnets are more than 2 nodes"),
        (300, 1, ("10.244.0.0/24",), "too small for 300 nodes"),
        (2, 1, ("198.18.0.0/16",), "the addresses of the nodes"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(count: int, subnets: int, cidrs: tuple[str, ...], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        layout(count, subnets, *cidrs).check()
