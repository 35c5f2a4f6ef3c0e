"""The state of a network namespace as the kernel reports it, for comparison with results."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from harness.snapshot.tools import start
from netlink.namespace import entered, open_namespace

Address: TypeAlias = ipaddress.IPv4Interface | ipaddress.IPv6Interface
Host: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_ANYWHERE: Final = {"-4": "0.0.0.0/0", "-6": "::/0"}
"""ip-route(8) writes "default" for both, so each family is listed on its own."""
_NUMBERS: Final = {"table": 254, "scope": 0, "metric": 0}
"""The values that ip-route(8) leaves out."""
_UNICAST: Final = "1"
_BY_THE_KERNEL: Final = {"1", "2", "9"}
"""The protocols of routes that no program makes: redirects, the kernel's own, router advertisements."""


class KernelLink(NamedTuple):
    """A link. `mtu` is in bytes; `kind` is that of ip-link(8), such as veth, and empty for a device."""

    name: str
    mac: str
    mtu: int
    addresses: tuple[Address, ...]
    kind: str
    uses_arp: bool

    def has(self, address: Host) -> bool:
        """Whether it has the address, with any prefix length."""
        return any(each.ip == address for each in self.addresses)


class KernelRoute(NamedTuple):
    """A route, once for each of its next hops; `gw` is empty if its destination is on the link.

    `mtu` and `advmss` are in bytes, 0 if the route has none of its own. Routes of IPv6 are all of one scope.
    `made` tells that a program has made it, and not the kernel.
    """

    dst: Network
    gw: str
    dev: str
    made: bool
    table: int
    mtu: int
    advmss: int
    priority: int
    scope: int


def links(netns: str) -> Mapping[str, KernelLink]:
    """Return the links of a namespace by name. Raises OSError."""
    return {entry["ifname"]: _link(entry) for entry in _list(netns, "-details", "address", "show")}


def tentative_addresses(netns: str) -> set[Host]:
    """Return the addresses of a namespace that nothing can use yet: the kernel looks for another owner (RFC 4862)."""
    found = (each for entry in _list(netns, "address", "show", "tentative") for each in entry.get("addr_info", ()))
    return {_address(each).ip for each in found if "local" in each}


def routes(netns: str) -> Sequence[KernelRoute]:
    """Return the routes of a namespace to other machines, of all tables and both families. Raises OSError."""
    return [
        route
        for family, anywhere in _ANYWHERE.items()
        for entry in _list(netns, family, "route", "show", "table", "all")
        if entry.get("type", _UNICAST) == _UNICAST
        for route in _routes(entry, anywhere)
    ]


def on_link(there: Sequence[KernelRoute], address: Host) -> KernelRoute | None:
    """Return the route of the main table to an address if that is on a link, without a router between."""
    fitting = [route for route in there if route.table == _NUMBERS["table"] and address in route.dst]
    best = max(fitting, key=lambda route: (route.dst.prefixlen, -route.priority), default=None)
    return best if best is not None and not best.gw else None


def _link(entry: Mapping[str, Any]) -> KernelLink:
    addresses = [_address(each) for each in entry["addr_info"] if "local" in each]
    kind = entry.get("linkinfo", {}).get("info_kind", "")
    uses_arp = "NOARP" not in entry["flags"]
    return KernelLink(entry["ifname"], entry.get("address", ""), entry["mtu"], tuple(addresses), kind, uses_arp)


def _address(entry: Mapping[str, Any]) -> Address:
    # The length is the peer's if there is one.
    length = "" if "address" in entry else f"/{entry['prefixlen']}"
    return ipaddress.ip_interface(f"{entry['local']}{length}")


def _routes(entry: Mapping[str, Any], anywhere: str) -> Iterator[KernelRoute]:
    dst = ipaddress.ip_network(anywhere if entry["dst"] == "default" else entry["dst"])
    table, scope, priority = (int(entry.get(key, usual)) for key, usual in _NUMBERS.items())
    # One object, in a list.
    metrics = {key: value for each in entry.get("metrics", ()) for key, value in each.items()}
    for hop in (entry, *entry.get("nexthops", ())):
        gateway = hop.get("gateway") or hop.get("via", {}).get("host", "")
        dev, made = hop.get("dev", ""), entry.get("protocol") not in _BY_THE_KERNEL
        yield KernelRoute(
            dst, gateway, dev, made, table, metrics.get("mtu", 0), metrics.get("advmss", 0), priority, scope
        )


def _list(netns: str, *arguments: str) -> list[Any]:
    # Numeric: otherwise tables have names that this machine defines.
    with open_namespace(netns) as namespace, entered(namespace):
        listing = start("ip", "-Numeric", "-json", *arguments)
    [found] = listing.documents(1)
    return list(found)
