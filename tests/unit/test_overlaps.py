"""Which networks give away the same addresses."""

import json
from typing import Any

from harness.libcni.networks import NetworkList, parse_network_list
from harness.validation.value_rules import overlaps


def network(name: str, ipam: Any) -> NetworkList:
    plugins = [{"type": "bridge", "ipam": ipam}]
    return parse_network_list(json.dumps({"cniVersion": "1.0.0", "name": name, "plugins": plugins}).encode(), None)


def test_a_subnet_inside_another_networks_ranges() -> None:
    one = network("one", {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/16"}], [{"subnet": "fd00::/64"}]]})
    other = network("other", {"type": "host-local", "Subnet": "10.1.2.0/24"})

    assert list(overlaps([one, other])) == ["one and other both give away addresses of 10.1.2.0/24"]


def test_overlap_in_both_families_is_one_line() -> None:
    same = {"ranges": [[{"subnet": "10.1.0.0/16"}], [{"subnet": "fd00::/64"}]]}

    found = list(overlaps([network("one", same), network("other", same)]))
    assert found == ["one and other both give away addresses of 10.1.0.0/16, fd00::/64"]


def test_separate_subnets_do_not_overlap() -> None:
    assert (
        list(overlaps([network("one", {"subnet": "10.1.0.0/16"}), network("other", {"subnet": "10.2.0.0/16"})])) == []
    )


def test_invalid_subnets_are_ignored() -> None:
    broken = {"subnet": "10.1", "ranges": [None, 3, [{"subnet": 7}]]}

    assert list(overlaps([network("one", broken), network("other", {}), network("third", None)])) == []
