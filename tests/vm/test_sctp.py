"""portmap with SCTP, on a kernel that has it: messages reach the pod, and its answers come back."""

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.kernel import IS_FULL, lacking
from tests.node.firewall import socket_in
from tests.nodes import Node, veth_between
from tests.port_mappings import Ports, mapping

QUESTION, ANSWER = b"question", b"answer"


@pytest.fixture
def sctp() -> None:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
    except OSError:
        assert not IS_FULL
        lacking("SCTP (CONFIG_IP_SCTP)")


def asked_by(client: str, source: str, to: tuple[str, int], server: str, port: int) -> str:
    """Ask a server by SCTP and get its answer; return the client's address as the server sees it.

    The client has `source` as its only address: it would announce all that it has, and translation knows one.
    """
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    with (
        socket_in(server, family, socket.SOCK_STREAM, socket.IPPROTO_SCTP) as listener,
        socket_in(client, family, socket.SOCK_STREAM, socket.IPPROTO_SCTP) as peer,
    ):
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Associations of an earlier listener may still be closing.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen()
        peer.bind((source, 0))
        peer.connect(to)
        accepted, seen = listener.accept()
        with closing(accepted):
            peer.sendall(QUESTION)
            accepted.settimeout(listener.gettimeout())

            assert accepted.recv(100) == QUESTION
            accepted.sendall(ANSWER)
            assert peer.recv(100) == ANSWER
        return str(seen[0])


@pytest.mark.usefixtures("sctp")
@pytest.mark.parametrize("backend", ["nftables", "iptables"])
def test_a_port_leads_to_the_pod(make_node: Callable[[], Node], served_bin_dir: Path, backend: str) -> None:
    node, neighbour = make_node(), make_node()
    wire = veth_between(node, neighbour)
    ports = Ports(node, served_bin_dir, backend=backend)
    ports.add("one", mapping(8080, 80, "sctp"))
    one = ports.namespace("one")

    assert asked_by(neighbour.path, wire.ipv4[1], (wire.ipv4[0], 8080), one, 80) == wire.ipv4[1]
    assert asked_by(neighbour.path, wire.ipv6[1], (wire.ipv6[0], 8080), one, 80) == "2001:db8::2"
    assert asked_by(node.path, wire.ipv4[0], (wire.ipv4[0], 8080), one, 80) == wire.ipv4[0]
    assert asked_by(node.path, "127.0.0.1", ("127.0.0.1", 8080), one, 80) == "10.88.0.1"
    ports.succeed("CHECK", "one")

    ports.succeed("DEL", "one")
    for client, address in ((neighbour.path, wire.ipv4[0]), (node.path, "127.0.0.1")):
        gone = socket_in(client, socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
        with gone, pytest.raises(ConnectionRefusedError):
            gone.connect((address, 8080))
