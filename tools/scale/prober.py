"""A prober of pods: one process with a UDP socket in each pod asks each for an answer, and compares both ends."""

import errno
import select
import socket
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import islice
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

from netlink.namespace import Closing, entered, open_namespace

Address: TypeAlias = IPv4Address | IPv6Address

TTL: Final = 62
"""Of a packet that has left with 64, and was forwarded by both nodes. Tunnels count as none."""
OVERHEAD: Final = {4: 28, 6: 48}
"""Bytes of the IP and UDP headers, by IP version."""

_PORT: Final = 7
_MESSAGE: Final = struct.Struct("!IIB")
"""The number of the end that asks, that of the end that answers, and which of both this is."""
_QUESTION, _ANSWER = 0, 1
_WINDOW: Final = 100
"""Questions without an answer at a time."""
_WAIT_S: Final = 1.0
_TRIES: Final = 5
_PATIENCE_S: Final = 10.0
_GLANCE_S: Final = 0.05
_ANCILLARY: Final = 64

# include/uapi/linux/in.h and in6.h: Python has no names for these.
_IP_MTU_DISCOVER, _IP_PMTUDISC_DO, _IP_MTU = 10, 2, 14
_IPV6_MTU_DISCOVER, _IPV6_MTU = 23, 24
_IP_RECVTTL: Final = 12


class End(NamedTuple):
    """A pod."""

    name: str
    netns: str
    address: Address


class Prober(Closing):
    """Sockets of pods of one IP version, which answer each other."""

    def __init__(self, ends: Sequence[End]) -> None:
        """Open a socket in each pod. Raises OSError."""
        self._ends = ends
        self._sockets: list[socket.socket] = []
        self._poll = select.epoll()
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            for end in ends:
                self._sockets.append(_socket_in(end))
                self._poll.register(self._sockets[-1], select.EPOLLIN)
            on_failure.pop_all()
        self._numbers = {each.fileno(): number for number, each in enumerate(self._sockets)}

    def close(self) -> None:
        """Close the sockets."""
        for each in self._sockets:
            each.close()
        self._poll.close()

    def faults(self, pairs: Iterable[tuple[int, int]]) -> list[str]:
        """Have the first of each pair ask the second, and return what differs: no answer, a source address, a TTL."""
        found: list[str] = []
        left = iter(pairs)
        waiting: dict[tuple[int, int], tuple[float, int]] = {}
        while True:
            for pair in islice(left, _WINDOW - len(waiting)):
                self._ask(pair)
                waiting[pair] = (monotonic() + _WAIT_S, 1)
            if not waiting:
                return found
            for descriptor, _ in self._poll.poll(_WAIT_S):
                for pair in self._receive(self._numbers[descriptor], found):
                    waiting.pop(pair, None)
            for pair, (until, tries) in [item for item in waiting.items() if item[1][0] < monotonic()]:
                if tries == _TRIES:
                    found.append(f"{self._in_words(pair)}: no answer")
                    del waiting[pair]
                else:
                    self._ask(pair)
                    waiting[pair] = (until + _WAIT_S, tries + 1)

    def fault_of_size(self, pair: tuple[int, int], mtu: int) -> str:
        """Tell whether a packet of `mtu` bytes gets through whole, and one more byte is refused; return what differs.

        The refusal is that of a node on the way, if the sender's own link takes such packets.
        """
        asking, answering = self._ends[pair[0]], self._sockets[pair[1]]
        end = self._ends[pair[1]]
        size = mtu - OVERHEAD[end.address.version]
        with _socket_in(asking, 0) as own:
            own.connect((str(end.address), _PORT))
            own.send(bytes(size))
            if not _arrives(answering, size):
                return f"{self._in_words(pair)}: a packet of {mtu} bytes does not arrive"
            deadline = monotonic() + _PATIENCE_S
            while monotonic() < deadline:
                try:
                    own.send(bytes(size + 1))
                except OSError as error:
                    if error.errno != errno.EMSGSIZE:
                        raise
                    known = _path_mtu(own)
                    return "" if known == mtu else f"{self._in_words(pair)}: the way's MTU is {known}, not {mtu}"
                if _arrives(answering, size + 1, within=_GLANCE_S):
                    return f"{self._in_words(pair)}: a packet of {mtu + 1} bytes arrives"
        return f"{self._in_words(pair)}: no refusal of a packet of {mtu + 1} bytes"

    def _ask(self, pair: tuple[int, int]) -> None:
        asking, answering = pair
        self._send(asking, (str(self._ends[answering].address), _PORT), _MESSAGE.pack(asking, answering, _QUESTION))

    def _send(self, number: int, address: tuple[str, int], message: bytes) -> None:
        # Without a route, or with a full queue, it is as if the packet were lost.
        with suppress(OSError):
            self._sockets[number].sendto(message, address)

    def _receive(self, number: int, found: list[str]) -> Iterator[tuple[int, int]]:
        """Answer all questions that an end has got, and yield the pairs of the answers that it has got."""
        while True:
            try:
                message, ancillary, _, sender = self._sockets[number].recvmsg(_MESSAGE.size, _ANCILLARY)
            except OSError:  # nothing more, or an ICMP error
                return
            if len(message) != _MESSAGE.size:
                continue
            asking, answering, is_answer = _MESSAGE.unpack(message)
            words = f"{self._in_words((asking, answering))}: {'the answer' if is_answer else 'the packet'}"
            source, wanted = ip_address(sender[0]), self._ends[answering if is_answer else asking].address
            if source != wanted:
                found.append(f"{words} comes from {source}")
            ttl = next(int.from_bytes(value[:4], sys.byteorder) for _, _, value in ancillary)
            if ttl != TTL:
                found.append(f"{words} has TTL {ttl}")
            if is_answer:
                yield asking, answering
            else:
                self._send(number, sender[:2], _MESSAGE.pack(asking, answering, _ANSWER))

    def _in_words(self, pair: tuple[int, int]) -> str:
        asking, answering = (self._ends[number] for number in pair)
        return f"{asking.name} to {answering.name} ({answering.address})"


def ordered_pairs(count: int) -> Iterator[tuple[int, int]]:
    """Yield all ordered pairs; those that follow each other have different ends."""
    for distance in range(1, count):
        for asking in range(count):
            yield asking, (asking + distance) % count


def _socket_in(end: End, port: int = _PORT) -> socket.socket:
    """Open a socket in the pod, which sets "don't fragment" and is told the TTL of packets. Raises OSError."""
    is_ipv4 = end.address.version == 4  # noqa: PLR2004 -- the version
    with open_namespace(end.netns) as namespace, entered(namespace):
        made = socket.socket(socket.AF_INET if is_ipv4 else socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    if is_ipv4:
        made.setsockopt(socket.IPPROTO_IP, _IP_RECVTTL, 1)
        made.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
    else:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        made.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _IP_PMTUDISC_DO)
    made.bind((str(end.address), port))
    return made


def _path_mtu(connected: socket.socket) -> int:
    if connected.family == socket.AF_INET:
        return connected.getsockopt(socket.IPPROTO_IP, _IP_MTU)
    return connected.getsockopt(socket.IPPROTO_IPV6, _IPV6_MTU)


def _arrives(answering: socket.socket, size: int, *, within: float = _PATIENCE_S) -> bool:
    """Tell whether a packet of a size arrives in time; others are dropped."""
    deadline = monotonic() + within
    while (left := deadline - monotonic()) > 0:
        if select.select([answering], [], [], left)[0] and len(answering.recv(1 << 16)) == size:
            return True
    return False
