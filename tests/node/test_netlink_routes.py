import errno
from collections.abc import Iterator
from ipaddress import ip_address, ip_interface, ip_network
from socket import AF_INET, AF_INET6
from typing import Any

import pytest

from netlink.addresses import add_address
from netlink.links import set_up
from netlink.namespace import entered, open_namespace
from netlink.request import change
from netlink.routes import RT_TABLE_MAIN, KernelRoute, add_route, new_route
from netlink.rtnl import Rtnl
from netlink.wire import NetlinkError
from tests.nodes import Node

pytestmark = pytest.mark.sudo

ADDRESSES = [ip_interface("10.1.0.2/24"), ip_interface("2001:db8::2/64")]


@pytest.fixture
def rtnl(node: Node) -> Iterator[Rtnl]:
    """A node with a link "br0", up, that has an address of both families."""
    # The thread is elsewhere, so that a handle that opened in the wrong place is seen, and does no harm.
    with (
        open_namespace(node.pod_namespace("elsewhere")) as elsewhere,
        entered(elsewhere),
        open_namespace(node.path) as namespace,
        Rtnl(namespace) as handle,
    ):
        handle.create_bridge("br0")
        index = index_of(handle)
        handle.send(*(add_address(index, address, nodad=True) for address in ADDRESSES), set_up(index))
        yield handle


def index_of(rtnl: Rtnl) -> int:
    link = rtnl.link("br0")
    assert link is not None
    return link.ifindex


def shown(node: Node, *what: str) -> list[dict[str, Any]]:
    return [dict(route) for route in node.ip("-d", *what) if route.get("dev", "br0") == "br0"]


def ours(rtnl: Rtnl, family: int, dst: str, table: int | None = RT_TABLE_MAIN, ifindex: int = 0) -> list[KernelRoute]:
    return [route for route in rtnl.routes(family, table=table, ifindex=ifindex) if str(route.dst) == dst]


def test_add_route_with_everything(node: Node, rtnl: Rtnl) -> None:
    rtnl.add_route(
        index_of(rtnl),
        ip_network("192.0.2.0/24"),
        gateway=ip_address("10.1.0.1"),
        mtu=1300,
        advmss=1200,
        priority=77,
        table=1000,
    )

    (route,) = shown(node, "route", "show", "table", "1000")
    assert (
        route["dst"],
        route["gateway"],
        route["dev"],
        route["metric"],
        route["protocol"],
        route["scope"],
    ) == ("192.0.2.0/24", "10.1.0.1", "br0", 77, "boot", "global")
    assert route["metrics"] == [{"mtu": 1300, "advmss": 1200}]
    assert ours(rtnl, AF_INET, "192.0.2.0/24") == []
    expected = KernelRoute(
        dst=ip_network("192.0.2.0/24"),
        gateway=ip_address("10.1.0.1"),
        ifindex=index_of(rtnl),
        mtu=1300,
        advmss=1200,
        priority=77,
        table=1000,
        scope=0,
        kind=1,
        protocol=3,
    )
    assert [expected] == rtnl.routes(AF_INET, table=1000)
    assert [expected] == ours(rtnl, AF_INET, "192.0.2.0/24", table=None)


@pytest.mark.parametrize(("dst", "gateway"), [("0.0.0.0/0", "10.1.0.1"), ("::/0", "2001:db8::1")])
def test_default_route(node: Node, rtnl: Rtnl, dst: str, gateway: str) -> None:
    family = AF_INET6 if ":" in dst else AF_INET

    rtnl.add_route(index_of(rtnl), ip_network(dst), gateway=ip_address(gateway))

    (route,) = shown(node, "-6" if ":" in dst else "-4", "route", "show", "default")
    assert (gateway, "br0") == (route["gateway"], route["dev"])
    assert [ip_address(gateway)] == [route.gateway for route in ours(rtnl, family, dst)]


def test_route_gets_the_requested_scope(node: Node, rtnl: Rtnl) -> None:
    rtnl.add_route(index_of(rtnl), ip_network("192.0.2.0/24"), scope=253)

    assert [route["scope"] for route in shown(node, "route", "show", "192.0.2.0/24")] == ["link"]
    assert [route.scope for route in ours(rtnl, AF_INET, "192.0.2.0/24")] == [253]


def test_a_second_ipv6_route_makes_a_multipath_route(node: Node, rtnl: Rtnl) -> None:
    dst = ip_network("2001:db8:1::/64")
    for gateway in ("2001:db8::1", "2001:db8::9"):
        rtnl.add_route(index_of(rtnl), dst, gateway=ip_address(gateway))

    (route,) = shown(node, "-6", "route", "show", str(dst))
    assert [path["gateway"] for path in route["nexthops"]] == ["2001:db8::1", "2001:db8::9"]
    found = ours(rtnl, AF_INET6, str(dst), ifindex=index_of(rtnl))
    assert [str(route.gateway) for route in found] == ["2001:db8::1", "2001:db8::9"]


def test_an_equal_route_is_an_error_and_another_gateway_is_not(node: Node, rtnl: Rtnl) -> None:
    dst = ip_network("192.0.2.0/24")
    rtnl.add_route(index_of(rtnl), dst, gateway=ip_address("10.1.0.1"))

    with pytest.raises(NetlinkError, match=r"add route to 192.0.2.0/24 via 10.1.0.1 through link \d+: File exists"):
        rtnl.add_route(index_of(rtnl), dst, gateway=ip_address("10.1.0.1"))

    rtnl.add_route(index_of(rtnl), dst, gateway=ip_address("10.1.0.9"))
    gateways = [route["gateway"] for route in shown(node, "route", "show", str(dst))]
    assert sorted(gateways) == ["10.1.0.1", "10.1.0.9"]


def test_the_kernels_own_text_is_in_the_error(rtnl: Rtnl) -> None:
    with pytest.raises(NetlinkError, match="Nexthop has invalid gateway") as raised:
        rtnl.add_route(index_of(rtnl), ip_network("0.0.0.0/0"), gateway=ip_address("192.0.2.1"))

    assert raised.value.explained


def test_routes_of_one_link_and_of_unused_tables(node: Node, rtnl: Rtnl) -> None:
    rtnl.create_bridge("br1")
    node.run(["sh", "-c", "ip address add 10.9.0.1/24 dev br1 && ip link set br1 up"])

    assert {"10.1.0.0/24"} == {str(route.dst) for route in rtnl.routes(AF_INET, ifindex=index_of(rtnl))}
    assert {"10.1.0.0/24", "10.9.0.0/24"} == {str(route.dst) for route in rtnl.routes(AF_INET)}
    for family in (AF_INET, AF_INET6):
        assert rtnl.routes(family, table=4242) == []


def test_of_a_multipath_route_only_the_paths_through_the_link_asked_for(node: Node, rtnl: Rtnl) -> None:
    rtnl.create_bridge("br1")
    node.run(["sh", "-c", "ip address add 10.9.0.1/24 dev br1 && ip link set br1 up"])
    paths = "nexthop via 10.1.0.1 dev br0 nexthop via 10.9.0.9 dev br1"
    node.run(["ip", "route", "add", "192.0.2.0/24", *paths.split()])

    assert {str(route.gateway) for route in ours(rtnl, AF_INET, "192.0.2.0/24")} == {"10.1.0.1", "10.9.0.9"}
    (route,) = ours(rtnl, AF_INET, "192.0.2.0/24", ifindex=index_of(rtnl))
    assert str(route.gateway) == "10.1.0.1"


def test_several_requests_go_in_one_send_and_all_are_tried(node: Node, rtnl: Rtnl) -> None:
    index = index_of(rtnl)
    requests = [
        new_route(index, ip_network("192.0.2.0/24")),
        new_route(4242, ip_network("198.51.100.0/24")),
        new_route(index, ip_network("203.0.113.0/24")),
    ]

    changes = [change(request, "three routes", (errno.ENODEV,)) for request in requests]
    rtnl.send(*changes)

    assert [each.answer for each in changes] == [True, False, True]
    assert sorted(route["dst"] for route in shown(node, "route") if route["protocol"] == "boot") == [
        "192.0.2.0/24",
        "203.0.113.0/24",
    ]
    with pytest.raises(NetlinkError, match="three routes: File exists"):
        rtnl.send(*(change(request, "three routes") for request in requests))


def test_a_batch_larger_than_the_socket_buffers(node: Node, rtnl: Rtnl) -> None:
    # 6000 requests of 60 bytes are more than the default send buffer, and their errors more than the receive buffer.
    networks = [ip_network(f"100.64.{number >> 8}.{number & 255}/32") for number in range(6000)]
    index = index_of(rtnl)

    rtnl.send(*(add_route(new_route(index, network)) for network in networks))
    again = [change(new_route(index, network), "again", (errno.EEXIST,)) for network in networks]
    rtnl.send(*again)

    assert len(networks) == sum(route["protocol"] == "boot" for route in shown(node, "route"))
    assert len(networks) == sum(not request.answer for request in again)
    assert len(networks) == sum(route.protocol == 3 for route in rtnl.routes(AF_INET))


def test_route_to_an_address_is_the_kernels_choice(node: Node, rtnl: Rtnl) -> None:
    rtnl.add_route(index_of(rtnl), ip_network("192.0.2.0/24"), gateway=ip_address("10.1.0.1"))

    found = rtnl.route_to(ip_address("192.0.2.7"))

    assert found is not None
    assert (found.gateway, found.ifindex) == (ip_address("10.1.0.1"), index_of(rtnl))
    assert rtnl.route_to(ip_address("198.51.100.1")) is None
