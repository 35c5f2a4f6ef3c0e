"""Many routes of a pod: one send adds them, and one listing of a table checks them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from ipaddress import ip_address, ip_network
from types import FrameType
from typing import Any

import pytest

from netlink.link import Link
from netlink.namespace import Namespace, open_namespace
from netlink.rtnl import Rtnl
from netlink.wire import NetlinkError
from plugins.attach.pod_interface import check_addresses_and_routes, configure
from skel import CniError, IPConfig, Result, Route
from skel.decoders import cidr
from tests.nodes import Node

pytestmark = pytest.mark.sudo

FEW, MANY = 10, 2000


@pytest.fixture
def pod(node: Node) -> Iterator[tuple[Namespace, Rtnl, Link]]:
    """A node that stands for a pod, with an interface "eth0"."""
    with open_namespace(node.path) as namespace, Rtnl(namespace) as handle:
        handle.create_bridge("eth0")
        link = handle.link("eth0")
        assert link is not None
        yield namespace, handle, link


def result_of(routes: int) -> Result:
    """A result with an address, and so many routes: the first half through its gateway, the other in a table."""
    gateway = ip_address("10.1.0.1")
    return Result(
        ips=[IPConfig(address=cidr("10.1.0.2/24", ""), gateway=gateway)],
        routes=[
            Route(
                dst=ip_network(f"100.64.{number >> 8}.{number & 255}/32"),
                gw=None if number % 3 else gateway,
                table=None if number < routes // 2 else 1000,
            )
            for number in range(routes)
        ],
    )


def sends(function: Callable[[], object]) -> int:
    """How many requests, or bundles of them, `function` sends to the kernel."""
    count = 0

    def watch(_frame: FrameType, event: str, callee: Any) -> None:
        nonlocal count
        count += event == "c_call" and callee.__name__ == "send"

    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def add(pod: tuple[Namespace, Rtnl, Link], result: Result) -> None:
    _, handle, link = pod
    configure(handle, link.ifindex, link.name, result, dad=False, wait_reachable=lambda: None, waiting=nullcontext)


@pytest.mark.parametrize("routes", [FEW, MANY])
def test_the_number_of_routes_costs_no_more_requests(
    node: Node, pod: tuple[Namespace, Rtnl, Link], routes: int
) -> None:
    result = result_of(routes)
    _, handle, link = pod

    assert sends(lambda: add(pod, result)) == 1
    assert len(node.ip("route", "show", "proto", "boot")) == routes // 2
    assert len(node.ip("route", "show", "table", "1000")) == routes // 2
    assert sends(lambda: check_addresses_and_routes(handle, link, result.routes, [])) == 3


def test_a_route_that_the_kernel_refuses_is_named(pod: tuple[Namespace, Rtnl, Link]) -> None:
    result = result_of(FEW)
    result.routes[7].gw = ip_address("192.0.2.1")

    with pytest.raises(
        NetlinkError, match=r"add route to 100\.64\.0\.7/32 via 192\.0\.2\.1 through link \d+: "
    ) as refused:
        add(pod, result)

    assert refused.value.errno


def test_a_route_that_is_missing_or_goes_elsewhere_is_named(node: Node, pod: tuple[Namespace, Rtnl, Link]) -> None:
    result = result_of(FEW)
    _, handle, link = pod
    add(pod, result)
    check_addresses_and_routes(handle, link, result.routes, [])

    node.run(["ip", "route", "replace", "100.64.0.3/32", "via", "10.1.0.9"])
    with pytest.raises(CniError, match=r"route to 100\.64\.0\.3/32 via 10\.1\.0\.1 is missing"):
        check_addresses_and_routes(handle, link, result.routes, [])

    node.run(["ip", "route", "delete", "100.64.0.1/32"])
    with pytest.raises(CniError, match=r"route to 100\.64\.0\.1/32 is missing"):
        check_addresses_and_routes(handle, link, result.routes, [])
