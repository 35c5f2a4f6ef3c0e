"""Agents on nodes of two subnets: packets of pods travel in the tunnel, through a router that knows no range of pods.

tests/vm runs this on Debian's kernel, too.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from agent.agent import Agent
from agent.options import Options
from agent.peers import ClusterNode, judge
from agent.plan import TUNNEL
from netlink.namespace import open_namespace
from tests.nodes import Node, until_usable, veth_between

pytestmark = pytest.mark.sudo

NODES = [
    ClusterNode("node-0", "", ("10.244.0.0/24", "fd00:10:244::/64"), ("192.0.2.1", "2001:db8::1")),
    ClusterNode("node-1", "", ("10.244.1.0/24", "fd00:10:244:1::/64"), ("198.51.100.2", "2001:db8:1::2")),
]
OVERHEAD = 50
HEADERS = {4: 28, 6: 48}
"""Bytes of the headers of IP and ICMP."""


class Member(NamedTuple):
    """A node, and the network namespace of its pod."""

    node: Node
    pod: str


@pytest.fixture
def members(make_node: Callable[[], Node]) -> Iterator[list[Member]]:
    """Two nodes behind a router, each with an agent and a pod."""
    router, nodes = make_node(), [make_node(), make_node()]
    wires = [veth_between(nodes[0], router, 0), veth_between(router, nodes[1], 1)]
    router.run(["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"])
    with ExitStack() as stack:
        for number, node in enumerate(nodes):
            end = 1 - number  # of the wire, on the router's side
            for gateway in (wires[number].ipv4[end], wires[number].ipv6[end]):
                node.run(["ip", "route", "add", "default", "via", gateway])
            with open_namespace(node.path) as namespace:
                agent = stack.enter_context(Agent(Options(NODES[number].name), namespace))
            difference = agent.reconcile(judge(NODES, NODES[number].name))
            assert difference.problems == []
        yield [Member(node, pod_of(node, number)) for number, node in enumerate(nodes)]


def pod_of(node: Node, number: int) -> str:
    """Make a pod with the second address of each range of its node; return its network namespace."""
    pod, (ipv4, ipv6) = node.pod_namespace("pod"), (f"10.244.{number}.", f"fd00:10:244:{number}::")
    node.run(["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"])
    node.run(["ip", "link", "add", "veth0", "type", "veth", "peer", "name", "eth0", "netns", pod.rpartition("/")[2]])
    for netns, ifname, host in ((None, "veth0", 1), (pod, "eth0", 2)):
        node.run(["sysctl", "-qw", f"net.ipv6.conf.{ifname}.accept_dad=0"], netns=netns)
        for address in (f"{ipv4}{host}/24", f"{ipv6}{host}/64"):
            node.run(["ip", "address", "add", address, "dev", ifname, "nodad"], netns=netns)
        node.run(["ip", "link", "set", ifname, "up"], netns=netns)
    for gateway in (f"{ipv4}1", f"{ipv6}1"):
        node.run(["ip", "route", "add", "default", "via", gateway], netns=pod)
    until_usable(node, "veth0")
    until_usable(node, "eth0", pod)
    return pod


def ping(member: Member, target: str, packet: int) -> tuple[int, str]:
    """Send a packet of so many bytes that no router may cut; return the exit code, and the output."""
    size = packet - HEADERS[6 if ":" in target else 4]
    ran = member.node.run(["ping", "-c1", "-W3", "-M", "do", f"-s{size}", target], netns=member.pod, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def test_a_packet_of_full_size_arrives_and_one_byte_more_is_answered_with_the_mtu(members: list[Member]) -> None:
    one, _ = members
    mtu = 1500 - OVERHEAD
    assert [link["mtu"] for link in one.node.ip("link", "show", TUNNEL)] == [mtu]

    for target in ("10.244.1.2", "fd00:10:244:1::2"):
        assert ping(one, target, mtu)[0] == 0
        code, said = ping(one, target, mtu + 1)
        assert (code, f"mtu = {mtu}" in said or f"mtu={mtu}" in said) == (1, True), said
