"""Copies of a link's routes: as ip(8) shows them, with all their parts."""

import pytest

from netlink.namespace import entered, open_namespace
from netlink.route_copies import copy_routes
from netlink.rtnl import Rtnl
from netlink.wire import NetlinkError
from tests.nodes import Node

ROUTES = [
    "-4 route add 192.0.2.0/24 dev up0 src 192.0.2.1 metric 7",
    "-4 route add default via 192.0.2.2 metric 100 mtu lock 1300 advmss 1200",
    "-4 route add 203.0.113.0/24 nexthop via 192.0.2.2 dev up0 weight 2 nexthop via 192.0.2.3 dev up0 weight 5",
    "-4 route add 198.51.100.0/25 via 10.99.99.9 dev up0 onlink",
    "-4 nexthop add id 5 via 192.0.2.4 dev up0",
    "-4 route add 198.51.100.128/25 nhid 5 tos 0x10",
    "-6 route add default via 2001:db8::2 metric 100 mtu 1300 pref high",
    "-6 route add 2001:db8:1::/64 nexthop via 2001:db8::2 dev up0 nexthop via 2001:db8::3 dev up0 weight 3",
    "-6 route add 2001:db8:2::/64 dev up0 src 2001:db8::1",
    "-6 nexthop add id 6 via 2001:db8::4 dev up0",
    "-6 route add 2001:db8:3::/64 nhid 6",
]


@pytest.fixture
def routed(node: Node) -> Node:
    for command in (
        "link add up0 type veth peer down0",
        "link set down0 up",
        "link set up0 up",
        "address add 192.0.2.1/24 dev up0",
        "address add 2001:db8::1/64 dev up0 nodad",
        *ROUTES,
        # Of other links, and of two: these stay.
        "-4 route add 10.1.0.0/16 dev down0",
        "-4 route add blackhole 10.2.0.0/16",
        "-4 route add 10.3.0.0/16 nexthop via 192.0.2.2 dev up0 nexthop dev down0",
    ):
        node.run(["ip", *command.split()])
    return node


def shown(node: Node, table: str) -> list[str]:
    text = "".join(node.run(["ip", "-N", family, "route", "show", "table", table]).stdout for family in ("-4", "-6"))
    # The state of links and offloads is the kernel's to say; a multipath route of one link goes over two lines.
    lines = text.replace("\n\t", " ").splitlines()
    return sorted(" ".join(line.replace("linkdown", "").split()) for line in lines)


def test_copies_are_like_their_originals(routed: Node) -> None:
    before = shown(routed, "main")
    own = [line for line in before if not line.startswith(("10.", "6 10.", "fe80")) and "dev down0" not in line]
    with open_namespace(routed.path) as namespace, entered(namespace), Rtnl() as rtnl:
        link = rtnl.link("up0")
        assert link is not None

        copies = [copy for copy in copy_routes(rtnl, link.ifindex) if not copy.route.dst.is_link_local]
        rtnl.send(*(copy.add(1000) for copy in copies))
        assert shown(routed, "1000") == own
        assert shown(routed, "main") == before

        again = [copy.add(1000) for copy in copies]
        rtnl.send(*again)
        assert not any(request.answer for request in again)

        rtnl.send(*(copy.delete() for copy in reversed(copies)))
        assert shown(routed, "main") == [line for line in before if line not in own]
        rtnl.send(*(copy.add() for copy in copies))
        assert shown(routed, "main") == before
        rtnl.send(*(copy.delete() for copy in copy_routes(rtnl, link.ifindex, 1000)))
        assert shown(routed, "1000") == []


def test_error_of_a_copy_names_the_route_its_gateway_and_table(routed: Node) -> None:
    with open_namespace(routed.path) as namespace, entered(namespace), Rtnl() as rtnl:
        link = rtnl.link("up0")
        assert link is not None
        [copy] = [each for each in copy_routes(rtnl, link.ifindex) if str(each.route.dst) == "0.0.0.0/0"]
        routed.run(["ip", "link", "delete", "up0"])

        with pytest.raises(NetlinkError, match=r"add route to 0\.0\.0\.0/0 via 192\.0\.2\.2 in table 1000"):
            rtnl.send(copy.add(1000))
