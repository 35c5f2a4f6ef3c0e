"""`path` from a pod of one node to a pod of another: it says what real packets do, and names the place of each loss."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.kernel import PROTOCOL
from agent.plan import PORT, TUNNEL, VNI, Backend
from harness.views.tunnels import AGENT_NETWORK, AGENT_PROTOCOL, AGENT_TUNNEL
from netlink.namespace import entered, open_namespace
from tests.node.two_nodes import DIRECT, TUNNELLED, TwoNodes, both_ways, by_wire, two_nodes
from tests.nodes import Node, until

pytestmark = pytest.mark.sudo


@pytest.fixture(scope="module")
def by_way(tmp_path_factory: pytest.TempPathFactory, direct_bin_dir: Path) -> Iterator[dict[str, TwoNodes]]:
    """Nodes that each test leaves sound."""
    with both_ways(tmp_path_factory.mktemp("nodes"), direct_bin_dir) as both:
        yield both


@pytest.mark.parametrize("way", [DIRECT, TUNNELLED])
def test_a_sound_way_is_followed_to_the_other_pod(by_way: dict[str, TwoNodes], way: str) -> None:
    nodes = by_way[way]
    one, other = (cli.node for cli in nodes.clis)
    for version in (4, 6):
        result = nodes.path(version)

        assert (result.verdict, result.place) == ("delivered", f"{other}/pod1")
        assert str(result.packet.source) == nodes.address(0, version)
        assert result.mtu == {DIRECT: 1500, TUNNELLED: 1450}[way]
        places = list(dict.fromkeys(hop.place for hop in result.hops))
        assert places == [f"{one}/pod0", one, other, f"{other}/pod1"]
        assert [hop.place for hop in result.hops if hop.step == "tunnel"] == {DIRECT: [], TUNNELLED: [one, other]}[way]
        assert any(hop.what.endswith(f"proto {PROTOCOL} (the agent)") for hop in result.hops if hop.step == "route")
        assert nodes.is_answered(version)


class Damage(NamedTuple):
    """A way in which packets are lost, on the node number `at`, which `path` names with `words`."""

    way: str
    at: int
    command: str
    undo: str
    words: str
    version: int = 4
    place: int | None = None
    """The number of the node on which the packet ends, if not `at`."""


POLICY = "nft add table inet site; nft add chain inet site c '{{ type filter hook {} priority 0; policy drop; }}'"
NO_POLICY = "nft delete table inet site"
FDB = f"bridge fdb replace $(bridge fdb show dev {TUNNEL} | grep -o '^02[^ ]*') dev {TUNNEL} dst"
DAMAGES = {
    "no route": Damage(DIRECT, 0, "ip route del 10.244.1.0/24", "", "no route to 10.244.1.2"),
    "no IPv6 route": Damage(DIRECT, 0, "ip -6 route del fd00:10:244:1::/64", "", "no route to fd00:10:244:1::2", 6),
    "gateway of no host": Damage(
        DIRECT,
        0,
        "ip route change 10.244.1.0/24 via 192.0.2.9",
        "ip route del 10.244.1.0/24",
        "no host behind uplink0 has 192.0.2.9",
    ),
    "link down": Damage(
        DIRECT, 1, "ip link set uplink0 down", "ip link set uplink0 up", "uplink0 in {1} is down", place=0
    ),
    "wrong neighbour": Damage(
        DIRECT,
        0,
        "ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:09 dev uplink0 nud permanent",
        "ip neigh del 192.0.2.2 dev uplink0",
        "192.0.2.2 is 02:00:00:00:00:09 by a permanent neighbour entry of uplink0",
    ),
    "forwarding off": Damage(
        DIRECT,
        1,
        "sysctl -qw net.ipv4.conf.uplink0.forwarding=0",
        "sysctl -qw net.ipv4.conf.uplink0.forwarding=1",
        "net.ipv4.conf.uplink0.forwarding is 0",
    ),
    "IPv6 forwarding off": Damage(
        DIRECT,
        1,
        "sysctl -qw net.ipv6.conf.all.forwarding=0",
        "sysctl -qw net.ipv6.conf.all.forwarding=1",
        "net.ipv6.conf.all.forwarding is 0",
        6,
    ),
    "policy of forward": Damage(DIRECT, 1, POLICY.format("forward"), NO_POLICY, "inet site c: policy drop"),
    "tunnel without its route": Damage(TUNNELLED, 0, "ip route del 10.244.1.0/24", "", "no route to 10.244.1.2"),
    "no neighbour": Damage(
        TUNNELLED, 0, f"ip neigh del 10.244.1.0 dev {TUNNEL}", "", f"{TUNNEL} has no neighbour entry for 10.244.1.0"
    ),
    "no IPv6 neighbour": Damage(
        TUNNELLED,
        0,
        f"ip neigh del fd00:10:244:1:: dev {TUNNEL}",
        "",
        f"{TUNNEL} has no neighbour entry for fd00:10:244:1::",
        6,
    ),
    "no fdb entry": Damage(
        TUNNELLED, 0, FDB.replace("replace", "del").removesuffix(" dst"), "", f"{TUNNEL} has no fdb entry for 02:"
    ),
    "end of no host": Damage(
        TUNNELLED,
        0,
        f"{FDB} 192.0.2.9 self permanent",
        "",
        f"no host behind uplink0 has 192.0.2.9 (packet of the tunnel {TUNNEL})",
    ),
    "tunnel in itself": Damage(
        TUNNELLED,
        0,
        f"ip route add 192.0.2.2 via 10.244.1.0 dev {TUNNEL} onlink",
        "ip route del 192.0.2.2",
        f"the route to 192.0.2.2 leads into {TUNNEL} again (packet of the tunnel {TUNNEL})",
    ),
    "other tunnel down": Damage(
        TUNNELLED, 1, f"ip link set {TUNNEL} down", "", "no VXLAN link that is up has VNI 1 and UDP port 8472"
    ),
    "other MAC": Damage(
        TUNNELLED,
        1,
        f"ip link set {TUNNEL} address 02:00:00:00:00:09",
        "",
        f"{TUNNEL} has the MAC 02:00:00:00:00:09, and the frame is for 02:",
    ),
    "policy of input": Damage(
        TUNNELLED,
        1,
        f"{POLICY.format('input')}; nft add rule inet site c meta l4proto icmp accept",
        NO_POLICY,
        f"inet site c: policy drop (packet of the tunnel {TUNNEL})",
    ),
    "forwarding from the tunnel off": Damage(
        TUNNELLED,
        1,
        f"sysctl -qw net.ipv4.conf.{TUNNEL}.forwarding=0",
        f"sysctl -qw net.ipv4.conf.{TUNNEL}.forwarding=1",
        f"net.ipv4.conf.{TUNNEL}.forwarding is 0",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_the_place_of_a_loss_is_named_and_no_packet_comes(by_way: dict[str, TwoNodes], name: str) -> None:
    damage = DAMAGES[name]
    nodes = by_way[damage.way]
    labels = [cli.node for cli in nodes.clis]
    node = nodes.nodes[damage.at]
    node.run(["sh", "-ec", damage.command])

    result = nodes.path(damage.version)
    is_answered = nodes.is_answered(damage.version, wait=0.2)
    node.run(["sh", "-ec", damage.undo])
    until(lambda: has_links(node))
    nodes.reconcile()

    place = labels[damage.at if damage.place is None else damage.place]
    assert (result.verdict, result.place) == ("dropped", place)
    assert damage.words.replace("{1}", labels[1]) in result.reason
    assert not is_answered
    assert nodes.path(damage.version).verdict == "delivered"
    assert nodes.is_answered(damage.version)


def has_links(node: Node) -> bool:
    """Whether the uplink has come up, and with it its IPv6 address."""
    [link] = node.ip("address", "show", "dev", "uplink0")
    return link["operstate"] == "UP" and not any(each.get("tentative") for each in link["addr_info"])


def test_a_packet_larger_than_a_links_mtu_ends_there(by_way: dict[str, TwoNodes]) -> None:
    """Headers of IPv4 and of ICMP have 28 bytes."""
    for way, link in ((DIRECT, "uplink0"), (TUNNELLED, TUNNEL)):
        nodes = by_way[way]
        largest = nodes.path().mtu
        for node in nodes.nodes if way == DIRECT else ():
            node.run(["ip", "link", "set", link, "mtu", str(largest := 1400)])

        assert nodes.path(size=largest).verdict == "delivered"
        larger = nodes.path(size=largest + 1)
        assert (larger.verdict, larger.place) == ("dropped", nodes.clis[0].node)
        assert f"{link} in {nodes.clis[0].node} takes {largest}: fragmentation needed" in larger.reason
        assert nodes.is_answered(size=largest - 28)
        assert not nodes.is_answered(size=largest + 1 - 28, wait=0.2)
        for node in nodes.nodes if way == DIRECT else ():
            node.run(["ip", "link", "set", link, "mtu", "1500"])


def test_the_mtu_below_a_tunnel_counts(by_way: dict[str, TwoNodes]) -> None:
    nodes = by_way[TUNNELLED]
    for node in nodes.nodes:
        node.run(["ip", "link", "set", "uplink0", "mtu", "1400"])

    result, sized = nodes.path(), nodes.path(size=1351)

    for node in nodes.nodes:
        node.run(["ip", "link", "set", "uplink0", "mtu", "1500"])
    assert (result.mtu, result.mtu_at) == (1350, f"uplink0 in {nodes.clis[0].node}, less 50 for the tunnel")
    assert sized.verdict == "unsure"
    assert "the packet has 1401 bytes" in sized.reason


def test_a_tunnel_between_ipv6_addresses_adds_70_bytes(tmp_path: Path, direct_bin_dir: Path) -> None:
    def connect(one: Node, other: Node) -> list[tuple[str, ...]]:
        return [(ipv6,) for _, ipv6 in by_wire(one, other)]

    with two_nodes(tmp_path / "nodes", direct_bin_dir, Backend.VXLAN, connect=connect) as nodes:
        result = nodes.path()

        assert (result.verdict, result.mtu) == ("delivered", 1430)
        assert any("behind 2001:db8::2 (fdb): into a packet of 2001:db8::1" in hop.what for hop in result.hops)
        assert nodes.is_answered(size=1430 - 28)
        assert not nodes.is_answered(size=1431 - 28, wait=0.2)


def test_a_missing_entry_is_unsure_if_an_end_gets_all_unknown_frames(by_way: dict[str, TwoNodes]) -> None:
    nodes = by_way[TUNNELLED]
    rest = f"bridge fdb append 00:00:00:00:00:00 dev {TUNNEL} dst 192.0.2.2 self permanent"
    nodes.nodes[0].run(["sh", "-ec", f"{rest}; ip neigh del 10.244.1.0 dev {TUNNEL}"])

    result = nodes.path()
    is_answered = nodes.is_answered()  # the end answers to ARP
    nodes.reconcile()

    assert (result.verdict, is_answered) == ("unsure", True)
    assert result.reason == f"{TUNNEL} has no neighbour entry for 10.244.1.0"


@pytest.mark.parametrize("way", [DIRECT, TUNNELLED])
def test_the_last_line_names_the_source_that_the_other_pod_sees(by_way: dict[str, TwoNodes], way: str) -> None:
    nodes = by_way[way]
    rules = "nft add table ip site; nft add chain ip site c '{ type nat hook postrouting priority 100; }';"
    nodes.nodes[0].run(["sh", "-ec", f"{rules} nft add rule ip site c ip saddr 10.244.0.0/24 masquerade"])

    result = nodes.path()
    seen = source_seen(nodes)
    nodes.nodes[0].run(["nft", "delete", "table", "ip", "site"])

    assert (result.verdict, str(result.packet.source)) == ("delivered", seen)
    assert seen == {DIRECT: "192.0.2.1", TUNNELLED: "10.244.0.0"}[way]
    assert result.reason.endswith(f"which sees {seen} in place of {nodes.address(0)}")


def source_seen(nodes: TwoNodes) -> str:
    """Send a datagram from the first pod, and return the source that the second one sees."""
    ends = []
    for pod in nodes.pods:
        with open_namespace(pod["netns"]) as namespace, entered(namespace):
            ends.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with closing(ends[0]) as sender, closing(ends[1]) as receiver:
        receiver.settimeout(30)
        receiver.bind((nodes.address(1), 5353))
        sender.sendto(b"x", (nodes.address(1), 5353))
        return str(receiver.recvfrom(1)[1][0])


def test_the_command_line_follows_packets_to_another_node(by_way: dict[str, TwoNodes]) -> None:
    nodes = by_way[TUNNELLED]
    one, other = nodes.clis

    document = one.json("path", "pod0", "pod1", "--to-node", other.node, "-6", "--size", "1400")
    lost = one.run("path", "pod0", "pod0", "--to-node", other.node, check=False)

    assert (document["verdict"], document["place"]) == ("delivered", f"{other.node}/pod1")
    assert document["destination"] == nodes.address(1, 6)
    assert json.dumps(document["hops"]).count('"step": "tunnel"') == 2
    assert f"there is no pod default/pod0 on node {other.node}" in lost.stderr
    assert "there is no node none" in one.run("path", "pod0", "pod1", "--to-node", "none", check=False).stderr


def test_switches_and_a_router_between_nodes_are_found(
    tmp_path: Path, direct_bin_dir: Path, make_node: Callable[[], Node]
) -> None:
    near, router, far = (make_node() for _ in range(3))

    def connect(one: Node, other: Node) -> list[tuple[str, ...]]:
        link(one, "uplink0", near, "port0", "192.0.2.1/24")
        link(router, "near0", near, "port1", "192.0.2.254/24")
        link(router, "far0", far, "port0", "198.51.100.254/24")
        link(other, "uplink0", far, "port1", "198.51.100.2/24")
        for switch in (near, far):
            connect_ports(switch, 2)
        router.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        one.run(["ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.254"])
        other.run(["ip", "route", "add", "192.0.2.0/24", "via", "198.51.100.254"])
        return [("192.0.2.1",), ("198.51.100.2",)]

    with two_nodes(tmp_path / "nodes", direct_bin_dir, Backend.AUTO, connect=connect) as nodes:
        one, other = (cli.node for cli in nodes.clis)
        result = nodes.path()
        assert nodes.is_answered()
        router.run(["ip", "link", "set", "far0", "mtu", "1400"])
        smaller = nodes.path()
        router.run(["sysctl", "-qw", "net.ipv4.ip_forward=0"])
        lost = nodes.path()
        assert not nodes.is_answered(wait=0.2)

    assert result.verdict == "delivered"
    places = list(dict.fromkeys(hop.place for hop in result.hops))
    assert places == [f"{one}/pod0", one, near.name, router.name, far.name, other, f"{other}/pod1"]
    assert (smaller.mtu, smaller.mtu_at) == (1350, f"far0 in {router.name}, less 50 for the tunnel")
    assert (lost.verdict, lost.place) == ("dropped", router.name)
    assert lost.reason == f"net.ipv4.conf.near0.forwarding is 0 (packet of the tunnel {TUNNEL})"


def test_a_third_host_on_a_switch_is_not_taken_for_a_node_with_its_link_down(
    tmp_path: Path, direct_bin_dir: Path, make_node: Callable[[], Node]
) -> None:
    switch, third = make_node(), make_node()

    def connect(*both: Node) -> list[tuple[str, ...]]:
        for number, node in enumerate((*both, third)):
            link(node, "uplink0", switch, f"port{number}", f"192.0.2.{number + 1}/24")
        connect_ports(switch, 3)
        return [("192.0.2.1",), ("192.0.2.2",)]

    with two_nodes(tmp_path / "nodes", direct_bin_dir, Backend.HOST_GW, connect=connect) as nodes:
        assert nodes.path().verdict == "delivered"
        nodes.nodes[1].run(["ip", "link", "set", "uplink0", "down"])

        result = nodes.path()

        assert (result.verdict, result.place) == ("dropped", nodes.clis[0].node)
        why = f"uplink0 in {nodes.clis[1].node} is down"
        assert result.reason == f"no host behind uplink0 has 192.0.2.2 ({why})"


def connect_ports(switch: Node, count: int) -> None:
    """Make a bridge of port0, port1 and so on."""
    members = "".join(f"; ip link set port{number} master br0" for number in range(count))
    switch.run(["sh", "-ec", f"ip link add br0 type bridge; ip link set br0 up{members}"])


def link(one: Node, ifname: str, other: Node, other_ifname: str, *addresses: str) -> None:
    """Connect two nodes, the first of which has the first address."""
    one.run(["ip", "link", "add", ifname, "type", "veth", "peer", "name", other_ifname, "netns", other.name])
    ends = ((one, ifname), (other, other_ifname))
    for (node, name), address in zip(ends, (*addresses, ""), strict=False):
        if address:
            node.run(["ip", "address", "add", address, "dev", name])
        node.run(["ip", "link", "set", name, "up"])


def test_path_and_diagnose_know_the_protocol_and_the_tunnel_of_the_agent() -> None:
    assert (AGENT_PROTOCOL, AGENT_TUNNEL) == (PROTOCOL, TUNNEL)
    assert AGENT_NETWORK == (VNI, PORT, False)
