"""The state of a network namespace as the kernel reports it, for comparison with results."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from harness.snapshot.tools import list_again
from netlink.namespace import entered, open_namespace

__all__ = ["Address", "Link", "Network", "Route", "links", "routes"]

Address: TypeAlias = ipaddress.IPv4Interface | ipaddress.IPv6Interface
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_ANYWHERE: Final = {"-4": "0.0.0.0/0", "-6": "::/0"}
_NUMBERS: Final = {"table": 254, "scope": 0, "metric": 0}
"""The values that ip-route(8) leaves out."""


class Link(NamedTuple):
    """A link. `mtu` is in bytes."""

    name: str
    mac: str
    mtu: int
    addresses: tuple[Address, ...]


class Route(NamedTuple):
    """A route, once for each of its next hops; `gw` is empty if its destination is on the link.

    `mtu` and `advmss` are in bytes, 0 if the route has none of its own. Routes of IPv6 are all of one scope.
    """

    dst: Network
    gw: str
    table: int
    mtu: int
    advmss: int
    priority: int
    scope: int


def links(netns: str) -> Mapping[str, Link]:
    """Return the links of a namespace by name. Raises OSError."""
    return {entry["ifname"]: _link(entry) for entry in _list(netns, "address", "show")}


def routes(netns: str) -> Sequence[Route]:
    """Return the routes of a namespace, of all tables and both families. Raises OSError."""
    return [
        route
        for family, anywhere in _ANYWHERE.items()
        for entry in _list(netns, family, "route", "show", "table", "all")
        for route in _routes(entry, anywhere)
    ]


def _link(entry: Mapping[str, Any]) -> Link:
    addresses = [
        ipaddress.ip_interface(f"{each['local']}/{each['prefixlen']}") for each in entry["addr_info"] if "local" in each
    ]
    return Link(entry["ifname"], entry.get("address", ""), entry["mtu"], tuple(addresses))


def _routes(entry: Mapping[str, Any], anywhere: str) -> Iterator[Route]:
    dst = ipaddress.ip_network(anywhere if entry["dst"] == "default" else entry["dst"])
    table, scope, priority = (int(entry.get(key, usual)) for key, usual in _NUMBERS.items())
    # One object, in a list.
    metrics = {key: value for each in entry.get("metrics", ()) for key, value in each.items()}
    for hop in (entry, *entry.get("nexthops", ())):
        gateway = hop.get("gateway") or hop.get("via", {}).get("host", "")
        yield Route(dst, gateway, table, metrics.get("mtu", 0), metrics.get("advmss", 0), priority, scope)


def _list(netns: str, *arguments: str) -> list[Any]:
    # Numeric: otherwise tables have names that this machine defines.
    with open_namespace(netns) as namespace, entered(namespace):
        listing = list_again("ip", "-Numeric", "-json", *arguments)
    [found] = listing.documents(1)
    return list(found)
