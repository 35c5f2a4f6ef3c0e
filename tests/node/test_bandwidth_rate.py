"""Rates of limited pods, measured by iperf3 in the first second."""

from pathlib import Path
from typing import Any

import pytest

from tests.node.bandwidth import Limited
from tests.nodes import Node

pytestmark = pytest.mark.needs("iperf3")

RATE = 16_000_000
LOWEST, HIGHEST = 0.85 * RATE, 1.15 * RATE
ATTEMPTS = 10
"""An overloaded machine may starve iperf3. The bucket is full again by the next attempt."""
ADDRESSES = {4: "10.88.0.1", 6: "fd00:88::1"}
CONTAINERDS_BURST = 4_294_967_295
KEYS: dict[str, dict[str, Any]] = {
    "default burst": {"ingressRate": RATE, "egressRate": RATE},
    "containerd's burst": {
        "runtimeConfig": {
            "bandwidth": {
                "IngressRate": RATE,
                "IngressBurst": CONTAINERDS_BURST,
                "EgressRate": RATE,
                "EgressBurst": CONTAINERDS_BURST,
            }
        }
    },
}


def assert_limited(limited: Limited, address: str, *, to_pod: bool, udp_rate: int = 0) -> None:
    """Raise AssertionError for a first second above the limit, or if none of several comes near it."""
    measured = 0.0
    for _ in range(ATTEMPTS):
        measured = limited.first_second("one", address, to_pod=to_pod, udp_rate=udp_rate)
        assert measured <= HIGHEST
        if measured >= LOWEST:
            return
    assert measured >= LOWEST


@pytest.mark.parametrize("to_pod", [True, False], ids=["to the pod", "from the pod"])
@pytest.mark.parametrize(("keys", "version"), [*zip(KEYS.values(), ADDRESSES, strict=True)], ids=KEYS)
def test_tcp(node: Node, direct_bin_dir: Path, keys: dict[str, Any], version: int, *, to_pod: bool) -> None:
    limited = Limited(node, direct_bin_dir, **keys)
    limited.add("one")

    assert_limited(limited, ADDRESSES[version], to_pod=to_pod)


@pytest.mark.parametrize("to_pod", [True, False], ids=["to the pod", "from the pod"])
def test_udp_of_twice_the_rate(node: Node, direct_bin_dir: Path, *, to_pod: bool) -> None:
    limited = Limited(node, direct_bin_dir, **KEYS["default burst"])
    limited.add("one")

    assert_limited(limited, ADDRESSES[4], to_pod=to_pod, udp_rate=2 * RATE)


@pytest.mark.parametrize("key", ["shapedSubnets", "unshapedSubnets"])
@pytest.mark.parametrize(
    ("to_pod", "address", "network"),
    [(True, "203.0.113.1", "203.0.113.0/24"), (False, "2001:db8:1::1", "2001:db8:1::/48")],
    ids=["IPv4 to the pod", "IPv6 from the pod"],
)
def test_subnets(node: Node, direct_bin_dir: Path, key: str, address: str, network: str, *, to_pod: bool) -> None:
    """The subnets are those of the pod's peers."""
    limited = Limited(node, direct_bin_dir, **(KEYS["default burst"] | {key: [network, "198.51.100.0/24"]}))
    limited.add("one")
    node.run(["ip", "address", "add", address, "dev", "lo", *(["nodad"] if ":" in address else [])])
    outside = ADDRESSES[6 if ":" in address else 4]
    slow, fast = (address, outside) if key == "shapedSubnets" else (outside, address)

    assert_limited(limited, slow, to_pod=to_pod)
    assert limited.first_second("one", fast, to_pod=to_pod) > 3 * RATE
