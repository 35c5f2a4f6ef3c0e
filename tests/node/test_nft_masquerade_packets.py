"""Masquerading as a neighbour of the node sees it: whose address the packets of a pod carry."""

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import NamedTuple

import pytest

from firewall.owner import Owner
from tests.node.firewall import inside, masquerade, socket_in, unmasquerade
from tests.nodes import Neighbours, Node, until_usable, veth_between

pytestmark = pytest.mark.sudo


OWNER = Owner("net", "c1", "eth0")
OTHER = Owner("net", "c2", "eth0")
POD = {4: ip_interface("10.88.0.5/16"), 6: ip_interface("fd00:88::5/64")}
HOST = {4: "10.88.0.1/16", 6: "fd00:88::1/64"}
# Addresses of the neighbour within the pod's subnets.
IN_SUBNET = {4: ip_address("10.88.200.1"), 6: ip_address("fd00:88::200:1")}
MULTICAST = {4: "239.1.2.3", 6: "ff1e::1234"}
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
PORT = 5000


Address = IPv4Address | IPv6Address


class Wiring(NamedTuple):
    """A pod behind its node, and a neighbour that has no route back to the pod's subnet."""

    node: Node
    pod: str
    neighbour: Node
    wire: Neighbours

    def uplink(self, version: int, end: int) -> Address:
        """The address of the node (0) or the neighbour (1) on the wire between them."""
        return ip_address((self.wire.ipv4 if version == 4 else self.wire.ipv6)[end])


@pytest.fixture
def wiring(make_node: Callable[[], Node]) -> Wiring:
    node, neighbour = make_node(), make_node()
    pod = node.pod_namespace("pod")
    for path in (node.path, neighbour.path, pod):
        # Without detection of duplicate addresses, which would hold back the first packets for seconds.
        node.run(["sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad"], netns=path)
    wire = veth_between(node, neighbour)
    wiring = Wiring(node, pod, neighbour, wire)
    node.run(["ip", "link", "add", "host0", "type", "veth", "peer", "name", "eth0", "netns", pod.rpartition("/")[2]])
    node.run(["ip", "link", "set", "host0", "up"])
    node.run(["ip", "link", "set", "eth0", "up"], netns=pod)
    for version in FAMILIES:
        node.run(["ip", "address", "add", HOST[version], "dev", "host0"])
        node.run(["ip", "address", "add", str(POD[version]), "dev", "eth0"], netns=pod)
        gateway, remote = HOST[version].partition("/")[0], str(IN_SUBNET[version])
        node.run(["ip", "route", "add", "default", "via", gateway], netns=pod)
        node.run(["ip", "route", "add", remote, "via", gateway], netns=pod)
        node.run(["ip", "route", "add", remote, "via", str(wiring.uplink(version, 1))])
        neighbour.run(["ip", "address", "add", remote, "dev", wire.ifname, *(["nodad"] if version == 6 else [])])
    forwarding = "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"
    node.run(["sh", "-c", forwarding])
    until_usable(neighbour, wire.ifname)
    until_usable(node, "host0")
    until_usable(node, "eth0", pod)
    return wiring


def source_seen(wiring: Wiring, version: int, destination: Address) -> Address:
    """Send a datagram from the pod to the neighbour, and return the source address that it arrives with."""
    with (
        socket_in(wiring.neighbour.path, FAMILIES[version], socket.SOCK_DGRAM) as server,
        socket_in(wiring.pod, FAMILIES[version], socket.SOCK_DGRAM) as client,
    ):
        server.bind((str(destination), PORT))
        client.sendto(b"hello", (str(destination), PORT))
        received, sender = server.recvfrom(100)

    assert received == b"hello"
    return ip_address(sender[0])


@pytest.mark.parametrize("version", FAMILIES)
def test_neighbour_sees_the_nodes_address_for_a_masqueraded_pod(wiring: Wiring, version: int) -> None:
    neighbour = wiring.uplink(version, 1)
    assert source_seen(wiring, version, neighbour) == POD[version].ip

    with inside(wiring.node.path):
        masquerade([POD[version]], OWNER)

    assert source_seen(wiring, version, neighbour) == wiring.uplink(version, 0)


@pytest.mark.parametrize("version", FAMILIES)
def test_an_answer_finds_its_way_back_to_the_pod(wiring: Wiring, version: int) -> None:
    with inside(wiring.node.path):
        masquerade([POD[version]], OWNER)

    with (
        socket_in(wiring.neighbour.path, FAMILIES[version], socket.SOCK_STREAM) as server,
        socket_in(wiring.pod, FAMILIES[version], socket.SOCK_STREAM) as client,
    ):
        server.bind((str(wiring.uplink(version, 1)), PORT))
        server.listen()
        client.connect((str(wiring.uplink(version, 1)), PORT))
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"answer")
            assert client.recv(100) == b"answer"


@pytest.mark.parametrize("version", FAMILIES)
def test_traffic_within_the_subnet_is_not_masqueraded(wiring: Wiring, version: int) -> None:
    with inside(wiring.node.path):
        masquerade([POD[version]], OWNER)

    assert source_seen(wiring, version, IN_SUBNET[version]) == POD[version].ip
    assert source_seen(wiring, version, wiring.uplink(version, 1)) == wiring.uplink(version, 0)


@pytest.mark.parametrize("version", FAMILIES)
def test_another_address_of_the_subnet_is_not_masqueraded(wiring: Wiring, version: int) -> None:
    with inside(wiring.node.path):
        masquerade([ip_interface(f"{POD[version].ip + 1}/{POD[version].network.prefixlen}")], OWNER)

    assert source_seen(wiring, version, wiring.uplink(version, 1)) == POD[version].ip


@pytest.mark.parametrize("version", FAMILIES)
def test_multicast_keeps_its_source(wiring: Wiring, version: int) -> None:
    # Sent by the node in the pod's name: routing multicast would take a daemon, and the rules see both the same way.
    with inside(wiring.node.path):
        masquerade([POD[version]], OWNER)
    index = socket_index(wiring.node, wiring.wire.ifname)
    neighbour_index = socket_index(wiring.neighbour, wiring.wire.ifname)

    with (
        socket_in(wiring.neighbour.path, FAMILIES[version], socket.SOCK_DGRAM) as server,
        socket_in(wiring.node.path, FAMILIES[version], socket.SOCK_DGRAM) as client,
    ):
        server.bind(("", PORT))
        join(server, version, neighbour_index)
        send_from(client, version, index)
        client.sendto(b"hello", (MULTICAST[version], PORT))
        _, sender = server.recvfrom(100)

    assert ip_address(sender[0]) == POD[version].ip


@pytest.mark.parametrize("version", FAMILIES)
def test_unmasqueraded_address_is_visible_to_the_neighbour(wiring: Wiring, version: int) -> None:
    with inside(wiring.node.path):
        masquerade([POD[version]], OWNER)
        masquerade([POD[10 - version]], OTHER)
        unmasquerade(OWNER, [POD[version]])

    assert source_seen(wiring, version, wiring.uplink(version, 1)) == POD[version].ip
    assert source_seen(wiring, 10 - version, wiring.uplink(10 - version, 1)) == wiring.uplink(10 - version, 0)


def socket_index(node: Node, ifname: str) -> int:
    with inside(node.path):
        return socket.if_nametoindex(ifname)


def join(server: socket.socket, version: int, index: int) -> None:
    if version == 4:
        # struct ip_mreqn: group, local address, index
        request = ip_address(MULTICAST[4]).packed + bytes(4) + index.to_bytes(4, "little")
        server.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
    else:
        request = ip_address(MULTICAST[6]).packed + index.to_bytes(4, "little")
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)


def send_from(client: socket.socket, version: int, index: int) -> None:
    """Have `client` send multicast out of interface `index`, from the pod's address."""
    if version == 4:
        client.setsockopt(socket.IPPROTO_IP, socket.IP_TRANSPARENT, 1)
        client.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, bytes(8) + index.to_bytes(4, "little"))
    else:
        ipv6_transparent = 75
        client.setsockopt(socket.IPPROTO_IPV6, ipv6_transparent, 1)
        client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
    client.bind((str(POD[version].ip), 0))
