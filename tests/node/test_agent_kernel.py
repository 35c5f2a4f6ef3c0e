"""The agent's routes and tunnels in the kernel: it makes and removes its own, and leaves those of others alone."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from typing import NamedTuple

import pytest

from agent.kernel import PROTOCOL, Difference, Kernel
from agent.peers import ClusterNode, judge, tunnel_mac
from agent.plan import TUNNEL, Backend, Plan, make_plan
from netlink.namespace import open_namespace
from tests.kernel import has_link_kind, lacking
from tests.nodes import Node, veth_between

pytestmark = pytest.mark.sudo

ZEROS = "00:00:00:00:00:00"


class Member(NamedTuple):
    """A node of a cluster of two, and its number, 0 or 1."""

    node: Node
    kernel: Kernel
    number: int

    @property
    def name(self) -> str:
        return f"node-{self.number}"

    def plan(self, nodes: Sequence[ClusterNode], backend: Backend) -> Plan:
        judgement = judge(nodes, self.name)
        others = [each for peer in judgement.peers.values() for each in peer.addresses.values()]
        return make_plan(judgement, self.name, backend, self.kernel.underlay(judgement.peers[self.name], others))

    def routes(self) -> dict[str, tuple[str, str]]:
        """The agent's routes by their destinations, each with gateway and link."""
        of_both = [
            route for family in ("-4", "-6") for route in self.node.ip(family, "route", "show", "proto", str(PROTOCOL))
        ]
        return {route["dst"]: (route["gateway"], route["dev"]) for route in of_both}


DIRECT = {"10.244.1.0/24": ("192.0.2.2", "uplink0"), "fd00:10:244:1::/64": ("2001:db8::2", "uplink0")}


@pytest.fixture
def cluster(make_node: Callable[[], Node]) -> Iterator[list[Member]]:
    """Two nodes on one wire; the first address of each range, which a pod would have, is on lo."""
    nodes = [make_node(), make_node()]
    veth_between(nodes[0], nodes[1])
    kernels = []
    for number, node in enumerate(nodes):
        for address in (f"10.244.{number}.1/32", f"fd00:10:244:{number}::1/128"):
            node.run(["ip", "address", "add", address, "dev", "lo"])
        with open_namespace(node.path) as namespace:
            kernels.append(Kernel(namespace))
    yield [Member(node, kernel, number) for number, (node, kernel) in enumerate(zip(nodes, kernels, strict=True))]
    for kernel in kernels:
        kernel.close()


def members(count: int = 2) -> list[ClusterNode]:
    return [
        ClusterNode(
            f"node-{number}",
            "",
            (f"10.244.{number}.0/24", f"fd00:10:244:{number}::/64"),
            (f"192.0.2.{number + 1}", f"2001:db8::{number + 1}"),
        )
        for number in range(count)
    ]


def apply(cluster: list[Member], backend: Backend) -> list[Difference]:
    return [each.kernel.apply(each.plan(members(), backend)) for each in cluster]


def words(difference: Difference) -> list[str]:
    return sorted(map(str, difference.changes))


def assert_reached(cluster: list[Member]) -> None:
    one, other = cluster
    for source, target in (("10.244.0.1", "10.244.1.1"), ("fd00:10:244:0::1", "fd00:10:244:1::1")):
        one.node.run(["ping", "-c1", "-W5", "-I", source, target])
        other.node.run(["ping", "-c1", "-W5", "-I", target, source])


@pytest.mark.parametrize("backend", Backend)
def test_each_backend_leads_to_the_other_node_and_then_nothing_differs(cluster: list[Member], backend: Backend) -> None:
    apply(cluster, backend)

    assert_reached(cluster)
    again = apply(cluster, backend)
    assert again == [Difference("", [], [])] * 2


def test_direct_routes_name_their_maker(cluster: list[Member]) -> None:
    [difference, _] = apply(cluster, Backend.HOST_GW)

    assert cluster[0].routes() == DIRECT
    assert words(difference) == ["+ route 10.244.1.0/24 via 192.0.2.2", "+ route fd00:10:244:1::/64 via 2001:db8::2"]


def test_a_tunnel_has_the_settings_of_its_plan(cluster: list[Member]) -> None:
    apply(cluster, Backend.VXLAN)

    node = cluster[0].node
    [link] = node.ip("-d", "link", "show", TUNNEL)
    settings = link["linkinfo"]["info_data"]
    assert (settings["id"], settings["local"], settings["port"]) == (1, "192.0.2.1", 8472)
    assert (settings["learning"], link["mtu"], link["address"]) == (False, 1450, tunnel_mac("node-0"))
    assert cluster[0].routes() == {
        "10.244.1.0/24": ("10.244.1.0", TUNNEL),
        "fd00:10:244:1::/64": ("fd00:10:244:1::", TUNNEL),
    }
    known = {(each["dst"], each["lladdr"]) for each in node.ip("neigh", "show", "dev", TUNNEL, "nud", "permanent")}
    assert known == {("10.244.1.0", tunnel_mac("node-1")), ("fd00:10:244:1::", tunnel_mac("node-1"))}
    forwarded = node.run(["bridge", "fdb", "show", "dev", TUNNEL]).stdout
    assert f"{tunnel_mac('node-1')} dst 192.0.2.2 self permanent" in forwarded


@pytest.mark.parametrize("backend", [Backend.HOST_GW, Backend.VXLAN])
def test_a_node_that_went_leaves_nothing(cluster: list[Member], backend: Backend) -> None:
    one = cluster[0]
    one.kernel.apply(one.plan(members(1), backend))
    before = one.node.state()
    one.kernel.apply(one.plan(members(2), backend))

    one.kernel.apply(one.plan(members(1), backend))

    one.node.assert_same_state(before)


def test_the_end_of_a_tunnel_takes_all_of_it(cluster: list[Member]) -> None:
    one = cluster[0]
    before = one.node.state()
    one.kernel.apply(one.plan(members(), Backend.VXLAN))

    difference = one.kernel.apply(one.plan(members(), Backend.HOST_GW))

    assert difference.tunnel == "-"
    assert one.node.ip("link", "show", "type", "vxlan") == []
    one.kernel.apply(one.plan(members(1), Backend.HOST_GW))
    one.node.assert_same_state(before)


DAMAGES = {
    "flushed": (["ip", "route", "flush", "proto", str(PROTOCOL)], ["+ route 10.244.1.0/24 via 10.244.1.0"]),
    "route": (["ip", "route", "del", "10.244.1.0/24"], ["+ route 10.244.1.0/24 via 10.244.1.0"]),
    "other gateway": (
        ["ip", "route", "change", "10.244.1.0/24", "via", "192.0.2.9", "proto", str(PROTOCOL)],
        ["~ route 10.244.1.0/24 via 10.244.1.0"],
    ),
    "one more": (
        ["ip", "route", "add", "10.244.9.0/24", "via", "192.0.2.9", "proto", str(PROTOCOL)],
        ["- route 10.244.9.0/24 via 192.0.2.9"],
    ),
    "neighbour": (
        ["ip", "neigh", "del", "10.244.1.0", "dev", TUNNEL],
        [f"+ neighbour 10.244.1.0 dev {TUNNEL} {tunnel_mac('node-1')}"],
    ),
    "other neighbour": (
        ["ip", "neigh", "replace", "10.244.1.0", "lladdr", "02:00:00:00:00:09", "dev", TUNNEL, "nud", "permanent"],
        [f"~ neighbour 10.244.1.0 dev {TUNNEL} {tunnel_mac('node-1')}"],
    ),
    "forwarding": (
        ["bridge", "fdb", "del", tunnel_mac("node-1"), "dev", TUNNEL],
        [f"+ fdb {tunnel_mac('node-1')} dev {TUNNEL} dst 192.0.2.2"],
    ),
    "other end": (
        ["bridge", "fdb", "replace", tunnel_mac("node-1"), "dev", TUNNEL, "dst", "192.0.2.9", "self", "permanent"],
        [f"~ fdb {tunnel_mac('node-1')} dev {TUNNEL} dst 192.0.2.2"],
    ),
    "ends of all addresses": (
        [
            "sh",
            "-c",
            f"for end in 8 9; do bridge fdb append {ZEROS} dev {TUNNEL} dst 192.0.2.$end self permanent; done",
        ],
        [f"- fdb {ZEROS} dev {TUNNEL} dst 192.0.2.{end}" for end in (8, 9)],
    ),
    # With the last IPv4 address of a link, the kernel removes its IPv4 routes and neighbours.
    "address": (
        ["ip", "address", "del", "10.244.0.0/32", "dev", TUNNEL],
        [
            f"+ address 10.244.0.0/32 dev {TUNNEL}",
            f"+ neighbour 10.244.1.0 dev {TUNNEL} {tunnel_mac('node-1')}",
            "+ route 10.244.1.0/24 via 10.244.1.0",
        ],
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_loss_is_named_and_made_good(cluster: list[Member], damage: str) -> None:
    one = cluster[0]
    plan = one.plan(members(), Backend.VXLAN)
    apply(cluster, Backend.VXLAN)
    command, expected = DAMAGES[damage]
    one.node.run(command)

    seen = one.kernel.difference(plan)
    made = one.kernel.apply(plan)

    assert words(seen) == words(made) == expected
    assert one.kernel.difference(plan) == Difference("", [], [])
    assert_reached(cluster)


@pytest.mark.parametrize(
    "damage",
    [
        ["ip", "link", "del", TUNNEL],
        ["ip", "link", "set", TUNNEL, "down"],
        ["ip", "link", "set", TUNNEL, "mtu", "1300"],
        ["ip", "link", "set", TUNNEL, "address", "02:00:00:00:00:09"],
        ["ip", "link", "set", TUNNEL, "mtu", "1300", "alias", "another's"],
    ],
)
def test_a_tunnel_that_was_changed_is_made_anew(cluster: list[Member], damage: list[str]) -> None:
    one = cluster[0]
    plan = one.plan(members(), Backend.VXLAN)
    apply(cluster, Backend.VXLAN)
    one.node.run(damage)

    made = one.kernel.apply(plan)

    assert made.tunnel in {"+", "~"}
    assert one.kernel.difference(plan) == Difference("", [], [])
    assert_reached(cluster)


def test_other_programs_routes_stay_and_are_named(cluster: list[Member]) -> None:
    one = cluster[0]
    for route in (
        ["10.244.1.0/24", "via", "192.0.2.9", "proto", "static"],
        ["fd00:10:244:1:1::/80", "via", "2001:db8::9", "proto", "bird"],
        ["10.250.0.0/16", "via", "192.0.2.9", "proto", "static"],
    ):
        one.node.run(["ip", "route", "add", *route])
    before = one.node.ip("route", "show")

    difference = one.kernel.apply(one.plan(members(), Backend.HOST_GW))

    assert sorted(difference.problems) == [
        "route 10.244.1.0/24 via 192.0.2.9 of static takes packets from the route to 10.244.1.0/24",
        "route fd00:10:244:1:1::/80 via 2001:db8::9 of bird takes packets from the route to fd00:10:244:1::/64",
    ]
    assert one.node.ip("route", "show") == before
    assert list(one.routes()) == ["fd00:10:244:1::/64"]


@pytest.mark.parametrize(("metric", "is_problem"), [("5", False), ("0", True)])
def test_a_route_with_a_higher_metric_is_no_problem(cluster: list[Member], metric: str, *, is_problem: bool) -> None:
    one = cluster[0]
    one.node.run(["ip", "route", "add", "10.244.1.0/24", "via", "192.0.2.9", "metric", metric])

    difference = one.kernel.apply(one.plan(members(), Backend.HOST_GW))

    assert bool(difference.problems) == is_problem
    assert ("10.244.1.0/24" in one.routes()) != is_problem


@pytest.mark.parametrize(
    "kind",
    ["bridge", "vxlan id 9 dstport 8472", "vxlan id 1 dstport 8472 nolearning local 192.0.2.1"],
    ids=["another kind", "another number", "no mark"],
)
def test_another_programs_link_of_the_tunnels_name_is_kept(cluster: list[Member], kind: str) -> None:
    one = cluster[0]
    one.node.run(["ip", "link", "add", TUNNEL, "type", *kind.split()])
    before = one.node.state()

    difference = one.kernel.apply(one.plan(members(), Backend.VXLAN))

    [problem] = difference.problems
    assert problem == f"there is no tunnel: {TUNNEL} is another program's link, of kind {kind.partition(' ')[0]}"
    one.node.assert_same_state(before)
    one.kernel.apply(one.plan(members(), Backend.HOST_GW))
    assert len(one.routes()) == 2


def test_another_programs_tunnel_of_the_same_number_is_named_and_direct_routes_go_on(cluster: list[Member]) -> None:
    one = cluster[0]
    one.node.run(
        ["ip", "link", "add", "flannel.1", "type", "vxlan", "id", "1", "dstport", "8472", "local", "192.0.2.1"]
    )
    far = ClusterNode("far", "", ("10.244.9.0/24",), ("198.51.100.9",))
    before = one.node.ip("link", "show", "flannel.1")

    difference = one.kernel.apply(one.plan([*members(), far], Backend.AUTO))

    assert difference.problems == ["there is no tunnel: flannel.1 has VNI 1 and port 8472, which it needs"]
    assert set(one.routes()) == {"10.244.1.0/24", "fd00:10:244:1::/64"}
    assert one.node.ip("link", "show", "flannel.1") == before


def test_an_own_route_of_another_priority_is_replaced(cluster: list[Member]) -> None:
    one = cluster[0]
    route = ["10.244.1.0/24", "via", "192.0.2.2", "metric", "500", "proto", str(PROTOCOL)]
    one.node.run(["ip", "route", "add", *route])

    difference = one.kernel.apply(one.plan(members(), Backend.HOST_GW))

    assert "~ route 10.244.1.0/24 via 192.0.2.2" in words(difference)
    [made] = one.node.ip("route", "show", "10.244.1.0/24")
    assert "metric" not in made


TWO_PATHS = ["nexthop", "via", "192.0.2.2", "nexthop", "via", "192.0.2.9"]
TWO_PATHS6 = ["nexthop", "via", "2001:db8::2", "nexthop", "via", "2001:db8::9"]


@pytest.mark.parametrize(
    ("dst", "route", "planned"),
    [
        ("10.244.1.0/24", TWO_PATHS, "~ route 10.244.1.0/24 via 192.0.2.2"),
        ("fd00:10:244:1::/64", TWO_PATHS6, "~ route fd00:10:244:1::/64 via 2001:db8::2"),
        ("10.244.1.0/24", ["via", "192.0.2.2", "tos", "0x10"], "~ route 10.244.1.0/24 via 192.0.2.2"),
        ("10.244.1.0/24", ["via", "192.0.2.2", "mtu", "1200"], "~ route 10.244.1.0/24 via 192.0.2.2"),
        ("10.244.1.0/24", ["nhid", "7"], "~ route 10.244.1.0/24 via 192.0.2.2"),
        ("10.244.1.0/24", ["via", "192.0.2.2", "table", "77"], "~ route 10.244.1.0/24 via 192.0.2.2"),
        ("10.244.9.0/24", TWO_PATHS, "- route 10.244.9.0/24"),
        ("10.244.9.0/24", ["via", "192.0.2.2", "tos", "0x10"], "- route 10.244.9.0/24 via 192.0.2.2"),
        ("10.244.9.0/24", ["via", "192.0.2.2", "table", "77"], "- route 10.244.9.0/24 via 192.0.2.2"),
        ("fd00:10:244:9::/64", ["via", "2001:db8::2", "table", "77"], "- route fd00:10:244:9::/64 via 2001:db8::2"),
        ("fd00:10:244:9::/64", TWO_PATHS6, "- route fd00:10:244:9::/64"),
    ],
)
def test_a_route_of_any_kind_with_the_agents_protocol_is_its_own(
    cluster: list[Member], dst: str, route: list[str], planned: str
) -> None:
    one = cluster[0]
    plan = one.plan(members(), Backend.HOST_GW)
    one.node.run(["ip", "nexthop", "add", "id", "7", "via", "192.0.2.2", "dev", "uplink0"])
    add = ["ip", "route", "prepend" if "." in dst else "append", dst, "proto", str(PROTOCOL), *route]
    one.node.run(add)

    difference = one.kernel.apply(plan)

    assert planned in words(difference)
    assert all_routes(one) == {"10.244.1.0/24": 1, "fd00:10:244:1::/64": 1}
    one.node.run(add, check=False)  # beside the planned one; IPv6 refuses paths of which it has one
    one.kernel.apply(plan)
    assert one.kernel.difference(plan) == Difference("", [], [])
    assert one.routes() == DIRECT
    assert all_routes(one) == {"10.244.1.0/24": 1, "fd00:10:244:1::/64": 1}


def all_routes(member: Member) -> Counter[str]:
    """Return the number of the agent's routes in all tables by their destinations."""
    show = ["route", "show", "table", "all", "proto", str(PROTOCOL)]
    return Counter(route["dst"] for family in ("-4", "-6") for route in member.node.ip(family, *show))


def test_another_programs_route_for_some_packets_does_not_keep_the_planned_one_away(cluster: list[Member]) -> None:
    one = cluster[0]
    one.node.run(["ip", "route", "add", "10.244.1.0/24", "via", "192.0.2.9", "tos", "0x10"])

    difference = one.kernel.apply(one.plan(members(), Backend.HOST_GW))

    assert difference.problems == [
        "route 10.244.1.0/24 via 192.0.2.9 of boot takes packets from the route to 10.244.1.0/24"
    ]
    assert one.routes() == DIRECT


def test_a_route_by_a_gateway_of_the_other_family_is_not_on_the_link(cluster: list[Member]) -> None:
    one = cluster[0]
    one.node.run(["ip", "route", "add", "198.51.100.0/24", "via", "inet6", "fe80::77", "dev", "uplink0"])

    assert one.kernel.on_link([ip_address("198.51.100.9"), ip_address("192.0.2.9")]).keys() == {ip_address("192.0.2.9")}


def test_a_tunnel_stays_while_its_address_is_on_no_link(cluster: list[Member]) -> None:
    one = cluster[0]
    apply(cluster, Backend.VXLAN)
    before = one.node.ip("link", "show", TUNNEL)
    one.node.run(["ip", "address", "del", "192.0.2.1/24", "dev", "uplink0"])

    plan = one.plan(members(), Backend.VXLAN)

    assert one.kernel.apply(plan) == Difference("", [], [])
    assert one.node.ip("link", "show", TUNNEL) == before
    assert list(map(str, plan.problems)) == [
        "Node node-0: no link of this node has its address 192.0.2.1; the tunnel stays as it is"
    ]


def bgp_host(cluster: list[Member], link: str = "lo") -> list[ClusterNode]:
    """Give the first node an address that is not on its uplink, whose MTU is 1400, and return three such nodes."""
    one = cluster[0].node
    one.run(["ip", "address", "add", "203.0.113.1/32", "dev", link])
    one.run(["ip", "link", "set", "uplink0", "mtu", "1400"])
    return [ClusterNode(f"node-{n}", "", (f"10.244.{n}.0/24",), (f"203.0.113.{n + 1}",)) for n in range(3)]


@pytest.mark.parametrize("link", ["lo", "dummy0"])
def test_the_mtu_for_an_address_that_is_on_no_uplink_is_the_smallest_of_the_ways_out(
    cluster: list[Member], link: str
) -> None:
    one = cluster[0]
    if link == "dummy0":
        if not has_link_kind(one.node, "dummy"):
            lacking("dummy")
        one.node.run(["ip", "link", "add", link, "type", "dummy"])
    nodes = bgp_host(cluster, link)
    one.node.run(["ip", "link", "add", "large", "mtu", "9000", "type", "veth", "peer", "name", "peer"])
    one.node.run(["ip", "link", "set", "large", "up"])
    one.node.run(["ip", "route", "add", "203.0.113.2/32", "via", "192.0.2.2"])
    one.node.run(["ip", "route", "add", "203.0.113.3/32", "dev", "large"])

    assert one.plan(nodes, Backend.VXLAN).site.mtu == 1400 - 50
    assert one.plan([nodes[0], nodes[2]], Backend.VXLAN).site.mtu == 9000 - 50


def test_the_mtu_of_a_node_that_is_alone_is_that_of_its_default_route(cluster: list[Member]) -> None:
    one, [own, *_] = cluster[0], bgp_host(cluster)
    assert one.plan([own], Backend.VXLAN).site.mtu == 1500 - 50

    one.node.run(["ip", "route", "add", "default", "via", "192.0.2.2"])

    assert one.plan([own], Backend.VXLAN).site.mtu == 1400 - 50


def test_a_change_that_the_kernel_refuses_is_a_problem_and_the_others_are_made(cluster: list[Member]) -> None:
    one = cluster[0]
    plan = one.plan(members(), Backend.HOST_GW)
    one.node.run(["ip", "address", "del", "2001:db8::1/64", "dev", "uplink0"])

    difference = one.kernel.apply(plan)

    [problem] = difference.problems
    assert "fd00:10:244:1::/64" in problem
    assert list(one.routes()) == ["10.244.1.0/24"]
