"""portmap: connections to ports of the host reach the pod, from everywhere and for the host's own addresses alone."""

import socket
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.node.firewall import socket_in
from tests.nodes import Node, veth_between
from tests.port_mappings import Ports, connects, mapping, refuses

BACKENDS = ["nftables", "iptables"]


def short(address: str) -> str:
    """Return an address as the kernel shows it."""
    return str(ip_address(address))


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("backend", BACKENDS)
def test_ports_answer_from_everywhere(make_node: Callable[[], Node], bin_dir: Path, backend: str) -> None:
    node, neighbour = make_node(), make_node()
    wire = veth_between(node, neighbour)
    ports = Ports(node, bin_dir, backend=backend)
    before = node.filtering()
    ports.add("one", mapping(8080, 80), mapping(8443, 443))
    ports.attach("two")
    one, two = ports.namespace("one"), ports.namespace("two")

    for port, own in ((8080, 80), (8443, 443)):
        assert connects(neighbour.path, wire.ipv4[0], port, one, own) == wire.ipv4[1]
        assert connects(neighbour.path, wire.ipv6[0], port, one, own) == short(wire.ipv6[1])
    assert connects(node.path, wire.ipv4[0], 8080, one, 80) == wire.ipv4[0]
    assert connects(node.path, "127.0.0.1", 8080, one, 80) == "10.88.0.1"
    for pod in (one, two):
        assert connects(pod, wire.ipv4[0], 8080, one, 80) == "10.88.0.1"
        assert connects(pod, wire.ipv6[0], 8080, one, 80) == "fd00:88::1"
        assert connects(pod, "10.88.0.1", 8080, one, 80) == "10.88.0.1"
    ports.succeed("CHECK", "one")

    ports.succeed("DEL", "one")
    assert refuses(neighbour.path, wire.ipv4[0], 8080)
    assert refuses(node.path, "127.0.0.1", 8443)
    ports.succeed("DEL", "one")
    if backend == "nftables":
        for pod in ("one", "two"):
            ports.bridge.succeed("DEL", pod, prevResult=ports.results[pod])
        assert node.filtering() == before


@pytest.mark.parametrize("calls", [0, 1], ids=["bridge-nf-0", "bridge-nf-1"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_pod_reaches_host_ports_of_itself_and_of_its_neighbour(
    node: Node, bin_dir: Path, backend: str, calls: int
) -> None:
    """With bridge-nf-call-iptables, which kubeadm demands, packets within the bridge pass its hooks, too."""
    ports = Ports(node, bin_dir, backend=backend)
    ports.bridge.config["hairpinMode"] = True
    for name in ("iptables", "ip6tables"):
        node.run(["sysctl", "-w", f"net.bridge.bridge-nf-call-{name}={calls}"])
    ports.add("one", mapping(8080, 80))
    ports.attach("two")
    one, two = ports.namespace("one"), ports.namespace("two")

    for pod in (one, two):
        assert connects(pod, "10.88.0.1", 8080, one, 80) == "10.88.0.1"
        assert connects(pod, "fd00:88::1", 8080, one, 80) == "fd00:88::1"
    # The host keeps the address that it has chosen.
    node.run(["ip", "address", "add", "192.0.2.77/32", "dev", "lo"])
    assert connects(node.path, "192.0.2.77", 8080, one, 80) == "192.0.2.77"


@pytest.mark.slow("it takes seconds; quicker tests of this module are in make test")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_port_of_one_address_is_taken_on_no_other(
    make_node: Callable[[], Node], direct_bin_dir: Path, backend: str
) -> None:
    node, neighbour = make_node(), make_node()
    wires = [veth_between(node, neighbour, number) for number in (0, 1)]
    ports = Ports(node, direct_bin_dir, backend=backend)
    ports.add("one", mapping(8080, 80, hostIP=wires[0].ipv4[0]), mapping(8080, 81, hostIP=wires[0].ipv6[0]))
    ports.add("two", mapping(8080, 80, hostIP=wires[1].ipv4[0]), mapping(8080, 80, hostIP=wires[1].ipv6[0]))
    one, two = ports.namespace("one"), ports.namespace("two")

    assert connects(neighbour.path, wires[0].ipv4[0], 8080, one, 80) == wires[0].ipv4[1]
    assert connects(neighbour.path, wires[0].ipv6[0], 8080, one, 81) == short(wires[0].ipv6[1])
    assert connects(neighbour.path, wires[1].ipv4[0], 8080, two, 80) == wires[1].ipv4[1]
    assert connects(neighbour.path, wires[1].ipv6[0], 8080, two, 80) == short(wires[1].ipv6[1])
    assert refuses(node.path, "127.0.0.1", 8080)
    for pod in ("one", "two"):
        ports.succeed("CHECK", pod)
        ports.succeed("DEL", pod)


def test_port_on_the_ipv6_loopback_address_reaches_no_pod(node: Node, direct_bin_dir: Path) -> None:
    """docs/portmap.md says so: a kernel that routes packets from ::1 would make this test fail."""
    ports = Ports(node, direct_bin_dir)
    ports.add("one", mapping(8080, 80))

    with (
        socket_in(ports.namespace("one"), socket.AF_INET6, socket.SOCK_STREAM) as listener,
        socket_in(node.path, socket.AF_INET6, socket.SOCK_STREAM) as peer,
    ):
        listener.bind(("::", 80))
        listener.listen()
        peer.settimeout(0.5)
        with pytest.raises(TimeoutError):
            peer.connect(("::1", 8080))
    assert connects(node.path, "fd00:88::1", 8080, ports.namespace("one"), 80)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_unspecified_address_stands_for_its_family(node: Node, direct_bin_dir: Path, backend: str) -> None:
    ports = Ports(node, direct_bin_dir, backend=backend)
    ports.add("one", mapping(8080, 80, hostIP="0.0.0.0"))

    assert connects(node.path, "10.88.0.1", 8080, ports.namespace("one"), 80)
    assert refuses(node.path, "fd00:88::1", 8080)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_connection_through_the_node_to_another_hosts_port_passes(
    make_node: Callable[[], Node], direct_bin_dir: Path, backend: str
) -> None:
    """The reference's nftables backend took it (CVE-2025-67499)."""
    node, client, server = make_node(), make_node(), make_node()
    to_client, to_server = veth_between(node, client), veth_between(node, server, 1)
    for end, here, there in ((client, to_client, to_server), (server, to_server, to_client)):
        end.run(["ip", "route", "add", f"{there.ipv4[0]}/24".replace(".1/", ".0/"), "via", here.ipv4[0]])
        end.run(["ip", "route", "add", f"{there.ipv6[0]}/64".replace("::1/", "::/"), "via", here.ipv6[0]])
    ports = Ports(node, direct_bin_dir, backend=backend, interface={"isDefaultGateway": True})
    ports.add("one", mapping(8080, 80))

    assert connects(client.path, to_server.ipv4[1], 8080, server.path, 8080) == to_client.ipv4[1]
    assert connects(client.path, to_server.ipv6[1], 8080, server.path, 8080) == short(to_client.ipv6[1])
    # From a pod, and from the node itself.
    server.run(["ip", "route", "add", "10.88.0.0/16", "via", to_server.ipv4[0]])
    assert connects(ports.namespace("one"), to_server.ipv4[1], 8080, server.path, 8080) == "10.88.0.2"
    assert connects(node.path, to_server.ipv4[1], 8080, server.path, 8080) == to_server.ipv4[0]
    assert connects(client.path, to_client.ipv4[0], 8080, ports.namespace("one"), 80) == to_client.ipv4[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_snat_nothing_is_masqueraded(make_node: Callable[[], Node], direct_bin_dir: Path, backend: str) -> None:
    node, neighbour = make_node(), make_node()
    wire = veth_between(node, neighbour)
    ports = Ports(node, direct_bin_dir, backend=backend, snat=False)
    ports.add("one", mapping(8080, 80))

    assert connects(neighbour.path, wire.ipv4[0], 8080, ports.namespace("one"), 80) == wire.ipv4[1]
    assert node.run(["cat", "/proc/sys/net/ipv4/conf/br0/route_localnet"]).stdout.strip() == "0"
    rules = node.run(["nft", "list", "ruleset"]).stdout
    assert "CNI-HOSTPORT-SETMARK" not in rules
    assert "masquerade@" not in rules
    ports.succeed("CHECK", "one")


@pytest.mark.parametrize("backend", BACKENDS)
def test_masq_all_hides_every_client(make_node: Callable[[], Node], direct_bin_dir: Path, backend: str) -> None:
    node, neighbour = make_node(), make_node()
    wire = veth_between(node, neighbour)
    ports = Ports(node, direct_bin_dir, backend=backend, masqAll=True)
    ports.add("one", mapping(8080, 80))
    one = ports.namespace("one")

    assert connects(neighbour.path, wire.ipv4[0], 8080, one, 80) == "10.88.0.1"
    assert connects(neighbour.path, wire.ipv6[0], 8080, one, 80) == "fd00:88::1"
    assert connects(one, wire.ipv4[0], 8080, one, 80) == "10.88.0.1"
    assert connects(node.path, "127.0.0.1", 8080, one, 80) == "10.88.0.1"
    ports.succeed("CHECK", "one")
    ports.succeed("DEL", "one")


@pytest.mark.parametrize("backend", BACKENDS)
def test_sctp_is_led_as_tcp_is(node: Node, direct_bin_dir: Path, backend: str) -> None:
    ports = Ports(node, direct_bin_dir, backend=backend)
    ports.add("one", mapping(8080, 80, "SCTP"))

    assert "sctp" in node.run(["nft", "list", "ruleset"]).stdout
    ports.succeed("CHECK", "one")
    ports.succeed("DEL", "one")
    assert " sctp" not in node.run(["nft", "list", "ruleset"]).stdout


def test_a_runtimes_keys_may_have_capitals(node: Node, direct_bin_dir: Path) -> None:
    ports = Ports(node, direct_bin_dir)
    ports.add("one", {"HostPort": 8080, "ContainerPort": 80, "Protocol": "tcp", "HostIP": ""})

    assert connects(node.path, "127.0.0.1", 8080, ports.namespace("one"), 80) == "10.88.0.1"


def test_a_ptp_pod_has_ports(make_node: Callable[[], Node], direct_bin_dir: Path) -> None:
    node, neighbour = make_node(), make_node()
    wire = veth_between(node, neighbour)
    ports = Ports(node, direct_bin_dir, interface={"type": "ptp", "ipMasq": True})
    ports.add("one", mapping(8080, 80))
    ports.attach("two")
    one, two = ports.namespace("one"), ports.namespace("two")

    assert connects(neighbour.path, wire.ipv4[0], 8080, one, 80) == wire.ipv4[1]
    assert connects(node.path, "127.0.0.1", 8080, one, 80) == "10.88.0.1"
    assert connects(one, wire.ipv4[0], 8080, one, 80) == "10.88.0.1"
    assert connects(two, wire.ipv4[0], 8080, one, 80) == "10.88.0.3"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_udp_flow_that_goes_on_reaches_the_pod_while_it_lives(
    make_node: Callable[[], Node], direct_bin_dir: Path, backend: str
) -> None:
    """The kernel tracks the flow, whose packets never stop, and would lead them to where the first one went."""
    node, neighbour = make_node(), make_node()
    wire = veth_between(node, neighbour)
    ports = Ports(node, direct_bin_dir, backend=backend)
    ports.attach("one")
    ports.attach("two")
    to_host = (wire.ipv4[0], 5353)
    with (
        socket_in(neighbour.path, socket.AF_INET, socket.SOCK_DGRAM) as client,
        socket_in(node.path, socket.AF_INET, socket.SOCK_DGRAM) as own,
        socket_in(ports.namespace("one"), socket.AF_INET, socket.SOCK_DGRAM) as one,
        socket_in(ports.namespace("two"), socket.AF_INET, socket.SOCK_DGRAM) as two,
    ):
        client.bind(("", 4000))
        own.bind(("", 5353))
        for pod in (one, two):
            pod.bind(("", 53))

        def answers(server: socket.socket) -> bool:
            client.sendto(b"question", to_host)
            _, asked_by = server.recvfrom(100)
            server.sendto(b"answer", asked_by)
            return client.recvfrom(100) == (b"answer", to_host)

        # Before the first rule, so that the kernel tracks it.
        node.run(["nft", "add table ip t; add chain ip t c { type nat hook prerouting priority 0; }"])
        assert answers(own)
        assert answers(own)
        ports.add("three", mapping(9090, 90))  # so that the last pod's rules do not go with all others
        ports.add("one", mapping(5353, 53, "udp"))
        assert answers(one)
        ports.succeed("DEL", "one", runtimeConfig=None, prevResult=None)
        assert answers(own)
        ports.add("two", mapping(5353, 53, "udp"))
        assert answers(two)
        ports.succeed("DEL", "two")
        assert answers(own)


def test_a_udp_flow_through_the_node_is_left_alone(make_node: Callable[[], Node], direct_bin_dir: Path) -> None:
    node, server = make_node(), make_node()
    wire = veth_between(node, server)
    ports = Ports(node, direct_bin_dir, interface={"ipMasq": True})
    ports.attach("one")
    ports.attach("two")
    with (
        socket_in(ports.namespace("two"), socket.AF_INET, socket.SOCK_DGRAM) as client,
        socket_in(server.path, socket.AF_INET, socket.SOCK_DGRAM) as there,
    ):
        there.bind(("", 53))
        client.sendto(b"question", (wire.ipv4[1], 53))
        _, asked_by = there.recvfrom(100)

        ports.add("one", mapping(53, 53, "udp"))
        there.sendto(b"answer", asked_by)
        assert client.recvfrom(100) == (b"answer", (wire.ipv4[1], 53))
