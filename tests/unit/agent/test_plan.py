"""Which way the agent plans to each range of pods."""

from ipaddress import ip_address, ip_interface, ip_network

import pytest

from agent.peers import ClusterNode, judge, tunnel_mac
from agent.plan import PORT, VNI, Backend, Plan, Underlay, make_plan
from netlink.kinds import NO_DETAILS, Vxlan
from netlink.link import Link

UPLINK = Link(
    2, "uplink", "02:00:00:00:00:01", 1500, "", True, "UP", False, False, 1000, 0, 0, None, "", (), False, NO_DETAILS
)
NEAR, FAR = ("192.0.2.2", "2001:db8::2"), ("198.51.100.3", "2001:db8:3::3")


def plan(
    backend: Backend,
    *others: ClusterNode,
    own: tuple[str, ...] = ("192.0.2.1", "2001:db8::1"),
    mtu: int = 0,
    near: tuple[str, ...] = NEAR,
    down: Link | None = None,
) -> Plan:
    """Plan for the node a; addresses of NEAR are on its link. If it is `down`, it has its IPv4 address alone."""
    nodes = [ClusterNode("a", "", ("10.244.0.0/24", "fd00:10:244::/64"), own), *others]
    underlay = Underlay(
        {ip_address(each): UPLINK for each in ("192.0.2.1", "2001:db8::1")},
        {ip_address(each): 2 for each in near},
        {ip_network("192.0.2.0/24"): down} if down else {},
    )
    return make_plan(judge(nodes, "a"), "a", backend, underlay, mtu)


def near(*addresses: str) -> ClusterNode:
    return ClusterNode("near", "", ("10.244.1.0/24", "fd00:10:244:1::/64"), addresses or NEAR)


def far(*addresses: str) -> ClusterNode:
    return ClusterNode("far", "", ("10.244.2.0/24", "fd00:10:244:2::/64"), addresses or FAR)


def ways(planned: Plan) -> dict[str, tuple[str, int]]:
    return {
        str(network): (str(hop.gateway), hop.ifindex)
        for each in planned.ways.values()
        for network, hop in each.hops.items()
    }


def ends(planned: Plan) -> dict[str, str]:
    return {mac: str(end) for each in planned.ways.values() for mac, end in each.ends.items()}


def texts(planned: Plan) -> list[str]:
    return [str(each) for each in planned.problems]


DIRECT = {"10.244.1.0/24": ("192.0.2.2", 2), "fd00:10:244:1::/64": ("2001:db8::2", 2)}
TUNNELLED = {"10.244.2.0/24": ("10.244.2.0", 0), "fd00:10:244:2::/64": ("fd00:10:244:2::", 0)}


def test_host_gw_leads_to_neighbours_alone() -> None:
    planned = plan(Backend.HOST_GW, near(), far())

    assert ways(planned) == DIRECT
    assert (planned.tunnel, planned.site.mtu) == (None, 1500)
    assert texts(planned) == [
        "Node far: no direct route to 10.244.2.0/24: its address 198.51.100.3 is on no link of this node",
        "Node far: no direct route to fd00:10:244:2::/64: its address 2001:db8:3::3 is on no link of this node",
    ]


def test_vxlan_leads_to_all_through_one_tunnel() -> None:
    planned = plan(Backend.VXLAN, near(), far())

    assert set(ways(planned)) == set(DIRECT) | set(TUNNELLED)
    assert {ifindex for _, ifindex in ways(planned).values()} == {0}
    assert planned.tunnel is not None
    assert planned.tunnel.settings == Vxlan(VNI, ip_address("192.0.2.1"), PORT, learning=False)
    assert ends(planned) == {tunnel_mac("near"): "192.0.2.2", tunnel_mac("far"): "198.51.100.3"}
    assert planned.tunnel.addresses == (ip_interface("10.244.0.0/32"), ip_interface("fd00:10:244::/128"))
    assert planned.ways["far"].neighbours[ip_address("fd00:10:244:2::")] == tunnel_mac("far")
    assert (planned.tunnel.mtu, planned.site.mtu) == (1450, 1450)


def test_auto_leads_directly_to_neighbours_and_through_the_tunnel_to_others() -> None:
    planned = plan(Backend.AUTO, near(), far())

    assert ways(planned) == DIRECT | TUNNELLED
    assert list(ends(planned)) == [tunnel_mac("far")]
    assert planned.problems == []


def test_auto_reserves_the_tunnels_headers_before_a_node_needs_it() -> None:
    planned = plan(Backend.AUTO, near())

    assert (planned.tunnel, planned.site.mtu) == (None, 1450)


@pytest.mark.parametrize("backend", [Backend.AUTO, Backend.HOST_GW])
def test_a_node_on_a_link_that_is_down_has_no_way_until_the_link_is_back(backend: Backend) -> None:
    planned = plan(backend, near(), near=(), down=UPLINK._replace(up=False))

    assert (ways(planned), planned.tunnel) == ({}, None)
    assert texts(planned) == [
        "Node near: no direct route to 10.244.1.0/24: the link uplink is down",
        "Node near: no direct route to fd00:10:244:1::/64: the link uplink is down",
    ]


def test_a_node_on_a_link_without_carrier_keeps_its_direct_way() -> None:
    planned = plan(Backend.AUTO, near(), near=(), down=UPLINK._replace(oper_state="DOWN"))

    assert ways(planned) == {"10.244.1.0/24": ("192.0.2.2", 2)}
    assert planned.tunnel is None


def test_a_link_that_is_down_changes_nothing_for_nodes_that_are_not_on_it() -> None:
    planned = plan(Backend.AUTO, far(), near(), down=UPLINK._replace(up=False))

    assert ways(planned) == DIRECT | TUNNELLED


def test_vxlan_keeps_its_tunnel_over_a_link_that_is_down() -> None:
    planned = plan(Backend.VXLAN, near(), near=(), down=UPLINK._replace(up=False))

    assert {ifindex for _, ifindex in ways(planned).values()} == {0}
    assert ends(planned) == {tunnel_mac("near"): "192.0.2.2"}


def test_ipv6_goes_through_a_tunnel_between_nodes_with_ipv4_alone() -> None:
    planned = plan(Backend.AUTO, near("192.0.2.2"), own=("192.0.2.1",))

    assert ways(planned)["fd00:10:244:1::/64"] == ("fd00:10:244:1::", 0)
    assert ways(planned)["10.244.1.0/24"] == ("192.0.2.2", 2)


def test_a_tunnel_over_ipv6_has_a_longer_header() -> None:
    planned = plan(Backend.VXLAN, far("2001:db8:3::3"), own=("2001:db8::1",))

    assert planned.tunnel is not None
    assert (planned.tunnel.settings.local, planned.tunnel.mtu) == (ip_address("2001:db8::1"), 1430)
    assert ends(planned) == {tunnel_mac("far"): "2001:db8:3::3"}


def test_both_ends_choose_one_family_whatever_the_order_of_addresses_is() -> None:
    planned = plan(Backend.VXLAN, far(), own=("2001:db8::1", "192.0.2.1"))

    assert planned.tunnel is not None
    assert planned.tunnel.settings.local == ip_address("192.0.2.1")


def test_the_mtu_of_the_option_comes_before_that_of_links() -> None:
    planned = plan(Backend.VXLAN, far(), mtu=1280)

    assert planned.tunnel is not None
    assert (planned.tunnel.mtu, planned.site.mtu) == (1280, 1280)


@pytest.mark.parametrize("backend", [Backend.VXLAN, Backend.AUTO])
def test_a_node_without_an_address_of_the_tunnels_family_is_a_problem(backend: Backend) -> None:
    planned = plan(backend, far("2001:db8:3::3"), near())

    assert "10.244.1.0/24" in ways(planned)
    assert texts(planned) == [
        "Node far: no tunnel to 10.244.2.0/24: it has no IPv4 address",
        "Node far: no tunnel to fd00:10:244:2::/64: it has no IPv4 address",
    ]


def test_an_own_address_that_no_link_has_is_a_problem_and_direct_ways_stay() -> None:
    planned = plan(Backend.AUTO, near(), far(), own=("192.0.2.77",))

    assert ways(planned) == DIRECT
    assert (planned.tunnel, planned.site.mtu) == (None, 0)
    assert texts(planned)[0] == "Node a: no link of this node has one of its addresses (192.0.2.77)"


def test_a_missing_own_node_plans_nothing() -> None:
    planned = make_plan(judge([near()], "a"), "a", Backend.AUTO, Underlay({}, {}))

    assert (planned.ways, texts(planned)) == ({}, ["Node a: there is no such Node"])


def test_refused_ranges_are_not_planned() -> None:
    planned = plan(Backend.AUTO, ClusterNode("bad", "", ("0.0.0.0/0",), ("192.0.2.2",)))

    assert (ways(planned), texts(planned)) == ({}, ["Node bad: podCIDR '0.0.0.0/0' is a default route"])
