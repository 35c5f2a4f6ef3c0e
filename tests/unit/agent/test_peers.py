"""Which claims of Node objects the agent follows."""

import ipaddress
import re

import pytest

from agent.peers import ClusterNode, Judgement, judge, read_node, tunnel_mac

CLUSTER = (ipaddress.ip_network("10.244.0.0/16"), ipaddress.ip_network("fd00:10:244::/56"))


def node(name: str, *cidrs: str, at: str | tuple[str, ...] = (), created: str = "") -> ClusterNode:
    return ClusterNode(name, created, cidrs, (at,) if isinstance(at, str) else at)


def judged(*nodes: ClusterNode) -> Judgement:
    return judge(nodes, "a", CLUSTER)


def ranges(judgement: Judgement, name: str) -> list[str]:
    return [str(each) for each in judgement.peers[name].pod_cidrs]


def test_a_node_object_is_read() -> None:
    content = {
        "metadata": {"name": "a", "creationTimestamp": "2026-11-27T00:00:00Z"},
        "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24", "fd00:10:244::/64"]},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": "a"},
                {"type": "InternalIP", "address": "192.0.2.1"},
                {"type": "ExternalIP", "address": "198.51.100.1"},
                {"type": "InternalIP", "address": "2001:db8::1"},
            ]
        },
    }

    assert read_node(content) == ClusterNode(
        "a", "2026-11-27T00:00:00Z", ("10.244.0.0/24", "fd00:10:244::/64"), ("192.0.2.1", "2001:db8::1")
    )


@pytest.mark.parametrize("bad", [None, [], "text", 7, {"podCIDRs": "10.0.0.0/8", "addresses": {"a": 1}}, [7, None]])
def test_a_node_object_of_any_shape_is_read(bad: object) -> None:
    assert read_node({"metadata": bad, "spec": bad, "status": bad}) == ClusterNode("", "", (), ())
    assert read_node({"spec": {"podCIDRs": bad}, "status": {"addresses": bad}}).addresses == ()


def test_a_node_with_the_older_key_alone_has_its_range() -> None:
    assert read_node({"spec": {"podCIDR": "10.244.0.0/24"}}).pod_cidrs == ("10.244.0.0/24",)


def test_good_nodes_are_followed_with_their_first_address_of_each_family() -> None:
    both = ("192.0.2.1", "2001:db8::1", "192.0.2.9")

    judgement = judged(node("a", "10.244.0.0/24", "fd00:10:244::/64", at=both), node("b", "10.244.1.0/24"))

    assert judgement.problems == []
    assert ranges(judgement, "a") == ["10.244.0.0/24", "fd00:10:244::/64"]
    assert judgement.peers["a"].addresses == {
        4: ipaddress.ip_address("192.0.2.1"),
        6: ipaddress.ip_address("2001:db8::1"),
    }
    assert (ranges(judgement, "b"), judgement.peers["b"].addresses) == (["10.244.1.0/24"], {})


@pytest.mark.parametrize(
    ("cidr", "reason"),
    [
        ("text", "is not a network"),
        ("10.244.1.1/24", "is not a network"),
        ("10.244.1.0/33", "is not a network"),
        ("fd00:10:244:1::%eth0/64", "has a zone"),
        ("0.0.0.0/0", "is a default route"),
        ("::/0", "is a default route"),
        ("10.245.0.0/24", "is outside of the cluster's ranges 10.244.0.0/16, fd00:10:244::/56"),
        ("10.0.0.0/8", "is outside of the cluster's ranges"),
        ("fd00:10:245::/64", "is outside of the cluster's ranges"),
        ("10.244.0.128/25", "overlaps 10.244.0.0/24 of Node a"),
        ("10.244.0.0/23", "overlaps 10.244.0.0/24 of Node a"),
        ("10.244.9.0/24", "holds the address 10.244.9.9 of Node a"),
    ],
)
def test_a_range_that_may_not_be_is_refused_by_name_and_value(cidr: str, reason: str) -> None:
    own = node("a", "10.244.0.0/24", at=("192.0.2.1", "10.244.9.9"))

    judgement = judged(own, node("bad", cidr, "10.244.7.0/24"), node("good", "10.244.8.0/24"))

    [problem] = map(str, judgement.problems)
    assert problem.startswith(f"Node bad: podCIDR {cidr!r} {reason}")
    assert [ranges(judgement, name) for name in ("bad", "good")] == [["10.244.7.0/24"], ["10.244.8.0/24"]]


@pytest.mark.parametrize(
    ("cidr", "word"),
    [
        ("127.0.0.0/24", "is loopback"),
        ("126.0.0.0/7", "has loopback addresses"),
        ("169.254.1.0/24", "is link-local"),
        ("224.1.0.0/16", "is multicast"),
        ("240.0.0.0/24", "is reserved"),
        ("0.1.0.0/16", "is this host"),
        ("::/64", "has loopback addresses"),
        ("fe80::/64", "is link-local"),
        ("ff02::/64", "is multicast"),
        ("::ffff:10.0.0.0/104", "is IPv4-mapped"),
    ],
)
def test_a_range_that_no_pod_can_have_is_refused_in_any_cluster(cidr: str, word: str) -> None:
    judgement = judge([node("bad", cidr)], "a")

    assert [each.text for each in judgement.problems] == [f"podCIDR {cidr!r} {word}"]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("text", "is not an IP address"),
        ("192.0.2.1", "is that of Node a"),
        ("10.244.0.5", "is in the range 10.244.0.0/24 of Node a"),
        ("127.0.0.1", "is loopback"),
        ("0.0.0.0", "is this host"),
        ("224.0.0.1", "is multicast"),
        ("fe80::1", "is link-local"),
        ("::1", "is loopback"),
        ("255.255.255.255", "is reserved"),
        ("2001:db8::9%eth0", "has a zone"),
    ],
)
def test_an_address_that_may_not_be_is_refused_by_name_and_value(address: str, reason: str) -> None:
    bad = node("bad", "10.244.9.0/24", at=(address, "192.0.2.2"))
    judgement = judged(node("a", "10.244.0.0/24", at="192.0.2.1"), bad)

    assert [str(each) for each in judgement.problems] == [f"Node bad: address {address!r} {reason}"]
    assert judgement.peers["bad"].addresses == {4: ipaddress.ip_address("192.0.2.2")}


@pytest.mark.parametrize("turned", [False, True])
def test_a_range_claimed_by_two_nodes_stays_with_the_older_one(*, turned: bool) -> None:
    nodes = [
        node("old", "10.244.5.0/24", at="192.0.2.5", created="2026-01-01T00:00:00Z"),
        node("new", "10.244.5.0/24", at="192.0.2.5", created="2026-02-01T00:00:00Z"),
    ]

    judgement = judged(*(reversed(nodes) if turned else nodes))

    assert [each.node for each in judgement.problems] == ["new", "new"]
    assert ranges(judgement, "old") == ["10.244.5.0/24"]


def test_the_own_node_comes_before_all() -> None:
    judgement = judged(
        node("old", "10.244.0.0/24", created="1970-01-01T00:00:00Z"), node("a", "10.244.0.0/24", created="2")
    )

    assert [each.node for each in judgement.problems] == ["old"]


def test_an_address_in_an_older_nodes_range_costs_the_younger_node_its_address() -> None:
    thief = node("thief", "10.244.6.0/24", at="10.244.5.1", created="2")
    judgement = judged(node("old", "10.244.5.0/24", created="1"), thief)

    assert [str(each) for each in judgement.problems] == [
        "Node thief: address '10.244.5.1' is in the range 10.244.5.0/24 of Node old"
    ]
    assert ranges(judgement, "old") == ["10.244.5.0/24"]


def test_a_node_without_a_range_is_named() -> None:
    assert [str(each) for each in judged(node("a", at="192.0.2.1")).problems] == ["Node a: it has no podCIDR"]


def test_a_long_claim_is_cut_in_its_problem() -> None:
    judgement = judged(node("bad", "x\n" * 500))

    [problem] = judgement.problems
    assert problem.text == f"podCIDR {('x' + chr(10)) * 30 + '…'!r} is not a network"


def test_a_node_may_not_overlap_itself() -> None:
    judgement = judged(node("b", "10.244.5.0/24", "10.244.5.0/25"))

    assert [each.text for each in judgement.problems] == ["podCIDR '10.244.5.0/25' overlaps 10.244.5.0/24 of Node b"]


def test_many_small_ranges_inside_of_one_are_all_seen() -> None:
    inside = [node(f"n{number:02}", f"10.244.{number}.0/24", created="1") for number in range(16)]

    judgement = judged(*inside, node("wide", "10.244.0.0/20", created="2"))

    assert [each.node for each in judgement.problems] == ["wide"]


def test_a_tunnels_address_is_local_unicast_and_differs_by_name() -> None:
    names = [f"node-{number}" for number in range(500)]

    macs = {tunnel_mac(name) for name in names}

    assert len(macs) == 500
    assert all(re.fullmatch(r"02(:[0-9a-f]{2}){5}", each) for each in macs)
    assert tunnel_mac("node-1") == "02:35:97:1b:e6:e9"
