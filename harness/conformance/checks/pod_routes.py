"""The truth of ADD's result about routes and gateways, compared with the kernel's state in the container."""

import ipaddress
import json
from collections.abc import Iterator
from typing import Final

from harness.conformance.engine.kernel import KernelRoute, Network, links, routes
from harness.conformance.engine.sequences import RESULT_LISTS_SINCE, check_of_result
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, ViolationError
from harness.conformance.subject import IN_POD
from skel.result import Result, Route

_MAIN: Final = 254
"""The number of the main table; before 1.1.0 a result cannot name another."""


@check_of_result("add-routes", "add-result-routes", profiles=IN_POD)
def add_routes(trial: Trial, result: Result) -> Iterator[ViolationError]:
    """The routes of the result are in the container."""
    if trial.container.ifname not in links(trial.container.netns):
        raise NotApplicableError("the interface is not in the container")
    there = routes(trial.container.netns)
    for route in result.routes:
        if not any(_is_as_said(each, route) for each in there):
            near = [_in_words(each) for each in there if each.gw or each.dst == route.dst]
            expected = f"a route to {_in_words(route)} in the container, as the result says"
            yield ViolationError(expected, ", ".join(near) or "no route with a gateway")


@check_of_result("add-tells-routes", "add-result-routes", profiles=IN_POD)
def add_tells_routes(trial: Trial, result: Result) -> Iterator[ViolationError]:
    """The result has every route that ADD has made in the container, except those to its own subnet and gateways."""
    there = routes(trial.container.netns)
    told = {(route.dst, str(route.gw or "")) for route in result.routes}
    subnets = [each.network for link in links(trial.container.netns).values() for each in link.addresses]
    hops = {route.gw for route in there if route.gw} | {str(ip.gateway) for ip in result.ips}
    for route in there:
        # A route to the subnet replaces the kernel's; one to a next hop is a part of the route that leads by way of it.
        is_part = any(_is_within(route.dst, subnet) for subnet in subnets) or _only_address(route.dst) in hops
        if not route.made or route.table != _MAIN or is_part or route.dst.is_link_local or route.dst.is_multicast:
            continue
        if not told & {(route.dst, route.gw), (route.dst, "")}:
            said = ", ".join(_in_words(each) for each in result.routes) or "none"
            yield ViolationError(f"a route to {_place(route)} among the routes, since the container has it", said)


@check_of_result("add-gateway-on-link", "add-result-gateway", profiles=IN_POD, since=RESULT_LISTS_SINCE)
def add_gateway_on_link(trial: Trial, result: Result) -> Iterator[ViolationError]:
    """The gateway of an address is in its subnet, or on another link of the container."""
    if not any(ip.gateway for ip in result.ips):
        raise NotApplicableError("the result has no gateway")
    there = routes(trial.container.netns)
    own = {each.ip for link in links(trial.container.netns).values() for each in link.addresses}
    for ip in result.ips:
        gateway = ip.gateway
        if gateway is None or ip.address.ip not in own or gateway in ip.address.network or gateway.is_link_local:
            continue
        near = [route for route in there if not route.gw and gateway in route.dst]
        if not near and all(route.gw != str(gateway) for route in there):
            expected = f"a gateway of {ip.address} in its subnet, or on another link of the container"
            yield ViolationError(expected, str(gateway))


@check_of_result("add-gateway-of-routes", "add-result-routes", "add-result-gateway", profiles=IN_POD)
def add_gateway_of_routes(trial: Trial, result: Result) -> Iterator[ViolationError]:
    """The default route, and those of the result without gw, lead to a gateway that the result tells."""
    there = routes(trial.container.netns)
    if not any(route.gw for route in there):
        raise NotApplicableError("the container has no route by way of a gateway")
    gateways = {str(ip.gateway) for ip in result.ips if ip.gateway}
    told = {(route.dst, str(route.gw or "")) for route in result.routes}
    configured = json.dumps(trial.subject.plugin.raw)
    if gateways and not any(_is_near(result, gateway) for gateway in gateways):
        return  # another check is about gateways that are on no link
    for route in there:
        if route.gw in {"", *gateways} or route.table != _MAIN or not _is_near(result, route.gw):
            continue
        is_default = route.made and route.dst.prefixlen == 0
        if (route.dst, route.gw) in told:
            # An administrator may choose another router, and no document demands a gateway beside it.
            is_wrong = is_default and bool(gateways) and f'"gw": "{route.gw}"' not in configured
        else:
            is_wrong = is_default or (route.dst, "") in told
        if is_wrong:
            expected = f"{route.gw} as a gateway of the ips, since the route to {route.dst} leads to it"
            yield ViolationError(expected, ", ".join(sorted(gateways)) or "none")


def _is_near(result: Result, hop: str) -> bool:
    return any(ipaddress.ip_address(hop) in ip.address.network for ip in result.ips)


def _is_within(inner: Network, outer: Network) -> bool:
    # The versions first: comparing networks of two families is an error.
    return inner.version == outer.version and inner.prefixlen >= outer.prefixlen and inner.network_address in outer


def _only_address(network: Network) -> str:
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else ""


def _is_as_said(there: KernelRoute, said: Route) -> bool:
    """Tell whether a route has all properties in the result's route, which may leave some out."""
    if there.dst != said.dst or said.table not in {None, there.table}:
        return False
    if said.gw is not None and there.gw != str(said.gw):
        return False
    if said.dst.version == 4 and said.scope not in {None, there.scope}:  # noqa: PLR2004 -- the number of the version
        return False
    numbers = ((said.mtu, there.mtu), (said.advmss, there.advmss), (said.priority, there.priority))
    return all(wanted in {0, found} for wanted, found in numbers)


def _place(route: Route | KernelRoute) -> str:
    return f"{route.dst} via {route.gw}" if route.gw else str(route.dst)


def _in_words(route: Route | KernelRoute) -> str:
    numbers = [(name, getattr(route, name)) for name in ("mtu", "advmss", "priority", "scope")]
    return _place(route) + "".join(f" {name} {value}" for name, value in numbers if value)
