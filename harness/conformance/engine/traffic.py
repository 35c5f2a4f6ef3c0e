"""Packets between a pod, its node and a machine beyond it: whether they arrive, and how fast.

A socket belongs to the netns that its thread was in when it was made, so only that thread has to change its netns.
"""

import errno
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Final, Self

from harness.conformance.engine.outside_changes import require
from harness.conformance.engine.trial import Trial
from harness.conformance.finding import NotApplicableError, SlowError, ViolationError
from harness.overload import once, overload
from netlink.namespace import entered, open_namespace

NODE_ADDRESS: Final = "192.0.2.1"
"""The node's, on the link to the machine beyond it (documentation range, RFC 5737)."""
MACHINE_ADDRESS: Final = "192.0.2.2"
"""The other end's."""
_SECONDS: Final = 3.0
"""The timeout of a connection: packets that are dropped give no answer."""
_ANSWER_SECONDS: Final = 5.0
"""How long a bridge and an IPv6 address may take until they work."""
_CLOSED_PORT: Final = 9
_TRANSFER_SECONDS: Final = 30.0
_CHUNK: Final = 1 << 16
"""Bytes of one read."""
_ANSWER: Final = b"from the pod"
_FLOW_MACHINES: Final = (("flow0", "203.0.113.129", "203.0.113.130"), ("flow1", "203.0.113.133", "203.0.113.134"))
"""For each machine its link on the node, the node's address there, and its own (documentation range, RFC 5737)."""
_FLOW_PORT: Final = 9
_PACKET_SIZE: Final = 8
"""Bytes of a packet: its number."""
_EVERY: Final = 0.02
"""Seconds between two packets."""
_GAP: Final = 1.0
"""Seconds without a packet that another program notices."""
_FLOW_BEGINS: Final = 3.0
_FLOWS: Final = "packets that the node forwards between two other machines to flow"


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

    def answers() -> bool:
        with _client(netns, family=_family(address)) as asking:
            code = asking.connect_ex((address, _CLOSED_PORT))
        return code in {0, errno.ECONNREFUSED}

    return once(answers, bool, _ANSWER_SECONDS * overload())


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


@contextmanager
def flowing(trial: Trial) -> Iterator[None]:
    """Have packets flow while the block lasts. Raises ViolationError if they stop; NotApplicableError.

    If none arrives before the block, nothing is demanded.
    """
    first, second = (linked_machine(trial, *words) for words in _FLOW_MACHINES)
    require(trial, trial.node_netns, "tee", "/proc/sys/net/ipv4/ip_forward", stdin="1")
    with _Packets(first, second, _FLOW_MACHINES[1][2]) as packets:
        flowed = packets.arrive()
        packets.longest_gap = 0.0
        yield
        if not flowed or trial.forwards_otherwise:
            return
        if not packets.arrive():
            raise ViolationError(f"{_FLOWS}, after the check's calls", "none arrives any more")
        if packets.longest_gap > _GAP * max(1.0, overload() / 2):
            raise SlowError(f"{_FLOWS}, during the check's calls", f"none arrives for {packets.longest_gap:.1f} s")


class _Packets:
    """Datagrams from one namespace to a server in another one, which answers each; a with block ends them."""

    def __init__(self, client: str, server: str, address: str) -> None:
        self.longest_gap = 0.0
        """Seconds without an answer."""
        self._last = time.monotonic()
        self._sent = 0
        self._answered = 0
        """The number of the latest packet that was answered."""
        self._ended = threading.Event()
        self._asking = socket_in(client, socket.AF_INET, socket.SOCK_DGRAM)
        self._asking.connect((address, _FLOW_PORT))
        self._asking.settimeout(_EVERY)
        self._answering = socket_in(server, socket.AF_INET, socket.SOCK_DGRAM)
        self._answering.bind((address, _FLOW_PORT))
        self._answering.settimeout(_EVERY)
        self._threads = [threading.Thread(target=each) for each in (self._ask, self._answer)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._asking.close()
        self._answering.close()

    def arrive(self) -> bool:
        """Tell whether a packet that is sent from now on is answered, within seconds."""
        sent = self._sent
        return once(lambda: self._answered > sent, bool, _FLOW_BEGINS * overload())

    def _ask(self) -> None:
        while not self._ended.wait(_EVERY):
            self._sent += 1
            with suppress(OSError):  # lost, or refused by the kernel of the node: a gap
                self._asking.send(self._sent.to_bytes(_PACKET_SIZE))
                self._answered = int.from_bytes(self._asking.recv(_PACKET_SIZE))
                self._last = time.monotonic()
            self.longest_gap = max(self.longest_gap, time.monotonic() - self._last)

    def _answer(self) -> None:
        while not self._ended.is_set():
            with suppress(OSError):  # none for a moment
                self._answering.sendto(*self._answering.recvfrom(_PACKET_SIZE))
