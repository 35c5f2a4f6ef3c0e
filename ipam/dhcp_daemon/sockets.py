"""Sockets in a pod's network namespace, open for as long as an answer is expected.

An open socket keeps its network namespace alive. So the daemon has none for a lease that is at rest.
"""

import ctypes
import socket
import struct
from contextlib import suppress

from netlink.namespace import Closing, Namespace, entered

from . import dhcpv4, dhcpv6

_ETH_P_IP = 0x0800
_SO_ATTACH_FILTER = 26
_FILTER = struct.Struct("=HBBI")
_FPROG = struct.Struct("@HP")
_RECEIVE_BUFFER = 1 << 16
_LARGEST = 1 << 16
_BROADCAST_MAC = b"\xff" * 6


def _for_port(port: int) -> bytes:
    """Return a classic BPF program (linux/filter.h) that passes UDP to a port, in IPv4 packets without their frame."""
    steps = (
        (0x30, 0, 0, 9),  # A = the protocol
        (0x15, 0, 6, socket.IPPROTO_UDP),
        (0x28, 0, 0, 6),  # A = flags and fragment offset
        (0x45, 4, 0, 0x1FFF),
        (0xB1, 0, 0, 0),  # X = length of the IP header
        (0x48, 0, 0, 2),  # A = the destination's port
        (0x15, 0, 1, port),
        (0x06, 0, 0, 0x40000),
        (0x06, 0, 0, 0),
    )
    return b"".join(_FILTER.pack(*step) for step in steps)


_PORT_FILTER = _for_port(dhcpv4.CLIENT_PORT)


class Wire(Closing):
    """A pod's link to the servers of one family, by a socket."""

    _socket: socket.socket

    def close(self) -> None:
        """Close; a second call does nothing."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the descriptor to wait on for answers."""
        return self._socket.fileno()

    def send(self, message: bytes, mac: str) -> None:
        """Send a message, to the hardware address `mac`, or to all servers if it is "". Raises OSError."""
        raise NotImplementedError

    def receive(self) -> tuple[bytes, str] | None:
        """Return one message and the hardware address that it came from ("" if unknown); None if there is no more.

        Raises OSError.
        """
        raise NotImplementedError


class Packets(Wire):
    """IPv4 packets of a link, whatever addresses and firewall rules the pod has."""

    def __init__(self, namespace: Namespace, ifname: str) -> None:
        """Open the sockets in `namespace`. Raises OSError (ENODEV if the interface is missing)."""
        self._ifname = ifname
        with entered(namespace):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, 0)
            self._absorber = _absorber(ifname)
        try:
            # In this order: no packet of another kind comes before the filter is there.
            program = ctypes.create_string_buffer(_PORT_FILTER, len(_PORT_FILTER))
            count = len(_PORT_FILTER) // _FILTER.size
            prog = _FPROG.pack(count, ctypes.addressof(program))
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, prog)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            self._socket.bind((ifname, _ETH_P_IP))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close both; a second call does nothing."""
        super().close()
        if self._absorber is not None:
            self._absorber.close()

    def send(self, message: bytes, mac: str) -> None:
        """Send an IP packet."""
        target = bytes.fromhex(mac.replace(":", "")) if mac else _BROADCAST_MAC
        self._socket.sendto(message, (self._ifname, _ETH_P_IP, 0, 0, target))

    def receive(self) -> tuple[bytes, str] | None:
        """Return an IP packet."""
        try:
            packet, (_, _, _, _, mac) = self._socket.recvfrom(_LARGEST)
        except BlockingIOError:
            return None
        return packet, mac.hex(":")


class Datagrams(Wire):
    """UDP over IPv6 on a link: the pod has a link-local address for it."""

    def __init__(self, namespace: Namespace, ifname: str, ifindex: int) -> None:
        """Open the socket in `namespace`. Raises OSError: EADDRINUSE if the pod has a DHCPv6 client of its own."""
        with entered(namespace):
            self._socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, ifname.encode() + b"\0")
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self._socket.bind(("::", dhcpv6.CLIENT_PORT, 0, 0))
        except BaseException:
            self.close()
            raise
        self._servers = (dhcpv6.SERVERS, dhcpv6.SERVER_PORT, 0, ifindex)

    def send(self, message: bytes, mac: str) -> None:
        """Send to all servers: a client unicasts only if it was told to (RFC 8415 section 18.2)."""
        del mac
        self._socket.sendto(message, self._servers)

    def receive(self) -> tuple[bytes, str] | None:
        """Return a message; the hardware address is unknown."""
        try:
            return self._socket.recv(_LARGEST), ""
        except BlockingIOError:
            return None


def _absorber(ifname: str) -> socket.socket | None:
    """Return a socket of the client's port, in this thread's network namespace, which nobody reads.

    Without one the kernel would tell the server by ICMP that the port is closed. None if the pod has a client of its
    own there.
    """
    absorber = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with suppress(OSError):
        absorber.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, ifname.encode() + b"\0")
        absorber.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        absorber.bind(("", dhcpv4.CLIENT_PORT))
        return absorber
    absorber.close()
    return None
