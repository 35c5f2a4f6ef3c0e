"""Packets between a pod, its node and a machine beyond it: whether they arrive, and how fast.

A socket belongs to the netns that its thread was in when it was made, so only that thread has to change its netns.
"""

import socket
import threading
import time
from ipaddress import ip_address
from typing import Final

from harness.conformance.engine.outside_changes import require
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError
from harness.overload import overload
from netlink.namespace import entered, open_namespace

NODE_ADDRESS: Final = "192.0.2.1"
"""The node's, on the link to the machine beyond it (documentation range, RFC 5737)."""
MACHINE_ADDRESS: Final = "192.0.2.2"
"""The other end's."""
_SECONDS: Final = 3.0
"""The timeout of a connection: packets that are dropped give no answer."""
_ANSWER_SECONDS: Final = 5.0
"""How long a bridge and an IPv6 address may take until they work."""
_PAUSE: Final = 0.1
_CLOSED_PORT: Final = 9
_TRANSFER_SECONDS: Final = 30.0
_CHUNK: Final = 1 << 16
"""Bytes of one read."""
_ANSWER: Final = b"from the pod"


def machine_beyond(trial: Trial) -> str:
    """Make a machine that reaches pods by way of the node, and return the path of its namespace."""
    return linked_machine(trial, "beyond0", NODE_ADDRESS, MACHINE_ADDRESS)


def linked_machine(trial: Trial, link: str, of_node: str, own: str) -> str:
    """Make a machine with a link to the node, its next hop for all packets; return the path of its namespace.

    `of_node` and `own` are the addresses on the link, of a network of four. Raises NotApplicableError.
    """
    netns = trial.site.namespace()
    on_node = (
        f"link add name {link} type veth peer name node0 netns {netns}",
        f"address add {of_node}/30 dev {link}",
        f"link set dev {link} up",
    )
    there = (f"address add {own}/30 dev node0", "link set dev node0 up", f"route add default via {of_node}")
    require(trial, trial.node_netns, "ip", "-batch", "-", stdin="\n".join(on_node))
    require(trial, netns, "ip", "-batch", "-", stdin="\n".join(there))
    return netns


def host_answers(netns: str, address: str) -> bool:
    """Tell whether a host answers a connection from a namespace: it takes or refuses it (RFC 9293, 3.10.7)."""
    deadline = time.monotonic() + _ANSWER_SECONDS * overload()
    while True:
        with _client(netns, family=_family(address)) as asking:
            try:
                asking.connect((address, _CLOSED_PORT))
            except ConnectionRefusedError:
                return True
            except OSError:
                if time.monotonic() > deadline:
                    return False
            else:
                return True
        time.sleep(_PAUSE)


def answered(pod: str, port: int, client: str, address: str, asked_port: int) -> bool:
    """Tell whether a server on a TCP port of the pod answers a client, in `client`, that asks another address."""
    with _server(pod, "", port) as server, _client(client) as asking:
        try:
            asking.connect((address, asked_port))
            # If the client has reached another server, this one's queue stays empty until the timeout.
            connection, _ = server.accept()
            with connection:
                connection.sendall(_ANSWER)
            return asking.recv(_CHUNK) == _ANSWER
        except OSError:
            return False


def source_seen(machine: str, address: str, pod: str) -> str:
    """Return the address that a machine sees a pod connect from, empty if the connection fails."""
    with _server(machine, address) as server, _client(pod) as asking:
        try:
            asking.connect(server.getsockname()[:2])
            connection, (source, _) = server.accept()
        except OSError:
            return ""
        connection.close()
        return str(source)


def seconds_to_receive(receiver: str, address: str, sender: str, size: int) -> float:
    """Return the seconds that `size` bytes take from the namespace `sender` to that of the address. Raises OSError."""
    with _server(receiver, address) as server, _client(sender, _TRANSFER_SECONDS) as sending:
        sending.connect(server.getsockname()[:2])
        receiving, _ = server.accept()
        with receiving:
            receiving.settimeout(_TRANSFER_SECONDS * overload())
            started = time.monotonic()
            thread = threading.Thread(target=_send, args=(sending, size))
            thread.start()
            try:
                missing = size
                while missing > 0 and (received := receiving.recv(_CHUNK)):
                    missing -= len(received)
            finally:
                thread.join()
            return time.monotonic() - started


def first_ipv4(addresses: list[str]) -> str:
    """Return the first IPv4 address. Raises NotApplicableError if there are only others."""
    for each in addresses:
        if ip_address(each).version == 4:  # noqa: PLR2004 -- the number of the version
            return each
    raise NotApplicableError("the pod has no IPv4 address")


def _send(sending: socket.socket, size: int) -> None:
    try:
        sending.sendall(bytes(size))
        sending.shutdown(socket.SHUT_WR)
    except OSError:
        sending.close()  # the receiver sees the end


def socket_in(netns: str, family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    """Return a socket of a namespace."""
    with open_namespace(netns) as namespace, entered(namespace):
        return socket.socket(family, kind)


def _server(netns: str, address: str, port: int = 0) -> socket.socket:
    with open_namespace(netns) as namespace, entered(namespace):
        server = socket.create_server((address, port))  # with SO_REUSEADDR: a later call binds the same port
    server.settimeout(_SECONDS * overload())
    return server


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET  # noqa: PLR2004 -- the version


def _client(netns: str, seconds: float = _SECONDS, family: socket.AddressFamily = socket.AF_INET) -> socket.socket:
    client = socket_in(netns, family, socket.SOCK_STREAM)
    client.settimeout(seconds * overload())
    return client
