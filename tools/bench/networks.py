"""The lists of several plugins that are measured, and the ports that their pods ask for."""

import json
from collections.abc import Mapping
from typing import Final

from harness.libcni.networks import NetworkList, parse_network_list

CHAIN: Final = "bench-chain"
FIVE: Final = "bench-five"
PORTS: Final = "bench-ports"

CHAINED: Final = ("portmap", "bandwidth", "firewall", "tuning", "sbr")
"""The plugins behind the bridge in the chain of six, in their order."""

_FIRST_PORT: Final = 10_000
_MEGABIT: Final = 1_000_000
_SHAPED: Final = {
    "ingressRate": 100 * _MEGABIT,
    "ingressBurst": 10 * _MEGABIT,
    "egressRate": 100 * _MEGABIT,
    "egressBurst": 10 * _MEGABIT,
}
_PORTMAP: Final[dict[str, object]] = {"type": "portmap", "capabilities": {"portMappings": True}}


def chain() -> NetworkList:
    """Return bridge with `ipMasq`, portmap, bandwidth, firewall, tuning and sbr."""
    return _network(CHAIN, *_five("bench2", "10.82.0.0/16"), {"type": "sbr"})


def five() -> NetworkList:
    """Return the same without sbr, whose DEL in the reference fails without the pod's interface."""
    return _network(FIVE, *_five("bench4", "10.84.0.0/16"))


def _five(bridge: str, subnet: str) -> list[dict[str, object]]:
    return [
        _bridge(bridge, subnet),
        _PORTMAP,
        {"type": "bandwidth", **_SHAPED},
        {"type": "firewall"},
        {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}, "mtu": 1400},
    ]


def ports() -> NetworkList:
    """Return bridge and portmap."""
    return _network(PORTS, _bridge("bench3", "10.83.0.0/16"), _PORTMAP)


def mapped_ports(pod: int, count: int = 1) -> Mapping[str, object]:
    """Return the `portMappings` of a pod's capabilities: `count` ports of the node that no other pod number has."""
    first = _FIRST_PORT + pod * count
    return {
        "portMappings": [
            {"hostPort": first + number, "containerPort": 80 + number, "protocol": "tcp"} for number in range(count)
        ]
    }


def _bridge(bridge: str, subnet: str) -> dict[str, object]:
    ipam = {"type": "host-local", "ranges": [[{"subnet": subnet}]]}
    return {"type": "bridge", "bridge": bridge, "isDefaultGateway": True, "ipMasq": True, "ipam": ipam}


def _network(name: str, *plugins: Mapping[str, object]) -> NetworkList:
    return parse_network_list(json.dumps({"cniVersion": "1.0.0", "name": name, "plugins": plugins}).encode())
