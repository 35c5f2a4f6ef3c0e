"""Comparison of an attachment's final result with the kernel.

A plugin's CHECK covers its own share of the result. Only the harness has the result of the whole list, and can tell
whether the final addresses and routes exist.
"""

from collections.abc import Iterator
from typing import NamedTuple

from harness.runtime.namespace_state import NamespaceState
from harness.runtime.pod_record import PodNetwork
from netlink.routes import RT_TABLE_MAIN, KernelRoute
from skel.result import Interface, IPConfig, Result, Route

_UNICAST = 1


class Compared(NamedTuple):
    """One fact of a result; `mismatch` describes the kernel's state, and is empty if both agree."""

    fact: str
    mismatch: str = ""

    def __str__(self) -> str:
        return f"the result has {self.fact}, the kernel {self.mismatch}" if self.mismatch else self.fact


def compare(
    network: PodNetwork, netns: str, pod: NamespaceState, node: NamespaceState | None = None
) -> Iterator[Compared]:
    """Compare the interfaces, addresses and routes of a result with the pod's state, and with `node` if it is given.

    `netns` is the path of the pod's sandbox. Interfaces outside the pod and the node are left out, and so are addresses
    without an interface.
    """
    result = network.decoded()
    inside = [link for link in result.interfaces if link.sandbox == netns]
    names = [link.name for link in inside]
    if not result.interfaces and network.result and {"ip4", "ip6"} & {key.lower() for key in network.result}:
        names = [network.ifname]  # up to 0.2.0 a result has no interfaces; CNI_IFNAME is meant
    if node is not None:
        yield from (_interface(link, node) for link in result.interfaces if not link.sandbox)
    yield from (_interface(link, pod) for link in inside)
    for ip in result.ips:
        if name := _interface_of(ip, result, netns, names):
            yield _address(ip, name, pod)
    if names:
        yield from (_route(route, names, pod) for route in result.routes)


def _interface(link: Interface, state: NamespaceState) -> Compared:
    there = state.link(link.name)
    # The MAC address of an interface on the node is left out: a bridge may change its own with its next port.
    told = bool(link.mac and link.sandbox)
    fact = f"interface {link.name}" + (f" with MAC {link.mac}" if told else "")
    if there is None:
        return Compared(fact, "has no such interface")
    return Compared(fact, f"has MAC {there.mac}" if told and there.mac != link.mac.lower() else "")


def _interface_of(ip: IPConfig, result: Result, netns: str, names: list[str]) -> str:
    """Return the pod's interface that has an address; an empty string if it is elsewhere or unknown."""
    if ip.interface is None:
        return names[0] if names and not result.interfaces else ""
    if not 0 <= ip.interface < len(result.interfaces):
        return ""
    link = result.interfaces[ip.interface]
    return link.name if link.sandbox == netns else ""


def _address(ip: IPConfig, name: str, pod: NamespaceState) -> Compared:
    link = pod.link(name)
    found = pod.addresses.get(link.ifindex, []) if link else []
    fact = f"address {ip.address} on {name}"
    if ip.address in found:
        return Compared(fact)
    others = [str(each) for each in found if each.version == ip.address.version and not each.is_link_local]
    return Compared(fact, f"has {', '.join(others)}" if others else "has none")


def _route(route: Route, names: list[str], pod: NamespaceState) -> Compared:
    """Look for a route in every table, unless the result names one: a chained plugin (sbr) may have moved it."""
    via = f" via {route.gw}" if route.gw is not None else ""
    fact = f"route to {route.dst}{via}" + (f" in table {route.table}" if route.table is not None else "")
    there = [
        each
        for each in pod.routes
        if each.kind == _UNICAST and each.dst == route.dst and route.table in {None, each.table}
    ]
    # The reference plugins give a route without gateway the gateway of its address.
    if any(pod.name(each.ifindex) in names and (route.gw is None or each.gateway == route.gw) for each in there):
        return Compared(fact)
    said = "; ".join(_in_words(each, pod) for each in there)
    return Compared(fact, f"has {said}" if said else "has no such route")


def _in_words(route: KernelRoute, pod: NamespaceState) -> str:
    via = f"via {route.gateway} " if route.gateway is not None else ""
    table = f" in table {route.table}" if route.table != RT_TABLE_MAIN else ""
    return f"it {via}through {pod.name(route.ifindex) or 'no interface'}{table}"
