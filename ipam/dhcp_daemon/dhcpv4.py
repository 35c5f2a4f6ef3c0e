"""Messages of DHCPv4 (RFC 2131, RFC 2132), in the IP packets that carry them.

A client without an address sends and receives whole IP packets. So these functions write and read IP and UDP, too.
"""

import struct
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from fast_stdlib.typing import NamedTuple
from skel import Route

from .lease import LeaseEvent
from .store import Terms

SERVER_PORT, CLIENT_PORT = 67, 68
DISCOVER, OFFER, REQUEST, DECLINE, ACK, NAK, RELEASE = range(1, 8)
BROADCAST = IPv4Address("255.255.255.255")
NOWHERE = IPv4Address(0)

_BOOTREQUEST, _BOOTREPLY = 1, 2
_ETHERNET = 1
_FLAG_BROADCAST = 0x8000
_COOKIE = bytes((99, 130, 83, 99))
_FIXED = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s4s")
_IP = struct.Struct("!BBHHHBBH4s4s")
_UDP = struct.Struct("!HHHH")
_PSEUDO = struct.Struct("!4s4sBBH")
_UDP_PROTOCOL = 17
_LEAST_LENGTH = 300
"""Bytes of a message: BOOTP relays drop shorter ones (RFC 1542 section 2.1)."""

_PAD, _END = 0, 255
_MASK, _STATIC_ROUTES, _ROUTER = 1, 33, 3
_REQUESTED, _LEASE_TIME, _OVERLOAD, _TYPE, _SERVER = 50, 51, 52, 53, 54
_T1, _T2, _CLIENT_ID, _CLASSLESS_ROUTES = 58, 59, 61, 121
_FILE, _SNAME = 1, 2

_DEFAULT_LIFETIME = 3600
"""Seconds, if the server says none: the reference's."""
_SCOPE_LINK = 253
_ONE_BYTE = 255


class Client(NamedTuple):
    """An attachment as the server knows it."""

    client_id: bytes
    mac: bytes
    options: Mapping[int, bytes]
    """Of the configuration: `provide` and the list of `request`."""
    broadcast: bool = False
    """Ask for answers to the broadcast address."""


class Reply(NamedTuple):
    """A server's answer: OFFER, ACK or NAK, an event of the lease."""

    event: str
    server: str
    terms: Terms | None
    """None for a NAK, and for an answer that lacks a necessary option."""
    flaw: str = ""
    """Why there are no terms."""


def message(kind: int, client: Client, xid: int, *, terms: Terms | None, renewing: bool = False) -> bytes:
    """Return an IP packet with a message of a kind (DISCOVER, REQUEST, RELEASE) to the server.

    `terms` are those offered, held or asked for. `renewing` is a REQUEST for more time, of an address in use.
    """
    address = terms.address.ip.packed if terms is not None else NOWHERE.packed
    in_use = renewing or kind == RELEASE
    options = {_TYPE: bytes((kind,)), _CLIENT_ID: client.client_id}
    if kind != RELEASE:
        options |= client.options
    elif _CLIENT_ID in client.options:
        options[_CLIENT_ID] = client.options[_CLIENT_ID]
    options[_TYPE] = bytes((kind,))
    if terms is not None and not in_use:
        options[_REQUESTED] = address
    if terms is not None and terms.server and kind in {REQUEST, RELEASE} and not renewing:
        options[_SERVER] = IPv4Address(terms.server).packed
    fixed = _FIXED.pack(
        _BOOTREQUEST,
        _ETHERNET,
        len(client.mac),
        0,
        xid,
        0,
        _FLAG_BROADCAST if client.broadcast and not in_use else 0,
        address if in_use else NOWHERE.packed,
        NOWHERE.packed,
        NOWHERE.packed,
        NOWHERE.packed,
        client.mac,
        b"",
        b"",
        _COOKIE,
    )
    payload = (fixed + _encoded(options)).ljust(_LEAST_LENGTH, b"\0")
    unicast = in_use and terms is not None and bool(terms.server)
    destination = IPv4Address(terms.server) if unicast and terms is not None else BROADCAST
    return _packet(payload, address if in_use else NOWHERE.packed, destination.packed)


def read_reply(packet: bytes, xid: int, mac: bytes) -> Reply | None:
    """Return the answer in an IP packet to the client; None for any other packet."""
    payload = _payload(packet)
    if payload is None or len(payload) < _FIXED.size:
        return None
    op, _, length, _, seen, _, _, _, yours, _, _, chaddr, sname, file, cookie = _FIXED.unpack_from(payload)
    if (op, seen, cookie) != (_BOOTREPLY, xid, _COOKIE) or chaddr[: min(length, 16)] != mac:
        return None
    options = _decoded(payload[_FIXED.size :])
    overload = options.get(_OVERLOAD, b"\0")[0] if options.get(_OVERLOAD) else 0
    for flag, field in ((_FILE, file), (_SNAME, sname)):
        if overload & flag:
            for code, value in _decoded(field).items():
                options[code] = options.get(code, b"") + value
    event = {OFFER: LeaseEvent.OFFER, ACK: LeaseEvent.ACK, NAK: LeaseEvent.NAK}.get(options.get(_TYPE, b"\0")[0])
    if event is None:
        return None
    server = str(IPv4Address(options[_SERVER])) if len(options.get(_SERVER, b"")) == len(NOWHERE.packed) else ""
    if event == LeaseEvent.NAK:
        return Reply(event, server, None)
    try:
        return Reply(event, server, _terms(IPv4Address(yours), options, server))
    except ValueError as error:
        return Reply(event, server, None, str(error))


def _terms(address: IPv4Address, options: Mapping[int, bytes], server: str) -> Terms:
    """Return the terms in a server's options. Raises ValueError that names the missing or wrong option."""
    mask = options.get(_MASK, b"")
    if len(mask) != len(address.packed):
        raise ValueError("the server sends no subnet mask (option 1)")
    if not int(address):
        raise ValueError("the server sends no address")
    lifetime = _number(options.get(_LEASE_TIME), _DEFAULT_LIFETIME)
    t1 = min(_number(options.get(_T1), lifetime // 2), lifetime)
    t2 = min(_number(options.get(_T2), lifetime * 85 // 100), lifetime)
    gateway = IPv4Address(options[_ROUTER][:4]) if len(options.get(_ROUTER, b"")) >= len(address.packed) else None
    return Terms(
        address=IPv4Interface(f"{address}/{IPv4Address(mask)}"),
        gateway=gateway,
        routes=list(_routes(options, gateway)),
        server=server,
        lifetime=lifetime,
        t1=min(t1, t2),
        t2=t2,
    )


def _routes(options: Mapping[int, bytes], gateway: IPv4Address | None) -> Iterable[Route]:
    """Yield the routes: with classless ones (RFC 3442) neither the static ones nor the router count."""
    classless = options.get(_CLASSLESS_ROUTES, b"")
    if classless:
        while classless:
            length = classless[0]
            size = (length + 7) // 8
            if length > IPv4Address(0).max_prefixlen or len(classless) < 1 + size + 4:
                raise ValueError("the server's classless routes (option 121) are cut off or wrong")
            dst = IPv4Network((classless[1 : 1 + size].ljust(4, b"\0"), length), strict=False)
            router = IPv4Address(classless[1 + size : 5 + size])
            # Without a router the destination is on the link.
            yield Route(dst=dst, gw=router, scope=None if int(router) else _SCOPE_LINK)
            classless = classless[5 + size :]
        return
    static = options.get(_STATIC_ROUTES, b"")
    for start in range(0, len(static) - 7, 8):
        subnet, through = static[start : start + 4], static[start + 4 : start + 8]
        yield Route(dst=IPv4Network((subnet, _classful(subnet[0])), strict=False), gw=IPv4Address(through))
    if gateway is not None:
        yield Route(dst=IPv4Network("0.0.0.0/0"), gw=gateway)


def _classful(first: int) -> int:
    """Return the prefix length that an address of a class has by itself (RFC 791)."""
    return 8 if first < 128 else 16 if first < 192 else 24  # noqa: PLR2004 -- classes A, B and C


def _number(value: bytes | None, default: int) -> int:
    return int.from_bytes(value) if value is not None and len(value) == len(NOWHERE.packed) else default


def _encoded(options: Mapping[int, bytes]) -> bytes:
    """Write options; one that is longer than 255 bytes in several pieces (RFC 3396)."""
    pieces = []
    for code, value in options.items():
        parts = [value[start : start + _ONE_BYTE] for start in range(0, len(value), _ONE_BYTE)] or [b""]
        pieces += [bytes((code, len(part))) + part for part in parts]
    return b"".join(pieces) + bytes((_END,))


def _decoded(field: bytes) -> dict[int, bytes]:
    """Read options; the pieces of one are joined. An option that is cut off is left out."""
    options: dict[int, bytes] = {}
    offset = 0
    while offset < len(field) and field[offset] != _END:
        code = field[offset]
        offset += 1
        if code == _PAD:
            continue
        if offset >= len(field) or offset + 1 + field[offset] > len(field):
            break
        size = field[offset]
        options[code] = options.get(code, b"") + field[offset + 1 : offset + 1 + size]
        offset += 1 + size
    return options


def _packet(payload: bytes, source: bytes, destination: bytes) -> bytes:
    length = _UDP.size + len(payload)
    header = _UDP.pack(CLIENT_PORT, SERVER_PORT, length, 0)
    checksum = _checksum(_PSEUDO.pack(source, destination, 0, _UDP_PROTOCOL, length) + header + payload)
    udp = _UDP.pack(CLIENT_PORT, SERVER_PORT, length, checksum or 0xFFFF) + payload
    fields = (0x45, 0x10, _IP.size + length, 0, 0, 64, _UDP_PROTOCOL)
    checksum = _checksum(_IP.pack(*fields, 0, source, destination))
    return _IP.pack(*fields, checksum, source, destination) + udp


def _payload(packet: bytes) -> bytes | None:
    """Return the UDP payload of an IP packet for the client's port.

    The UDP checksum is not looked at: in a packet from the same machine the kernel has not filled it in yet.
    """
    if len(packet) < _IP.size or packet[0] >> 4 != 4 or packet[9] != _UDP_PROTOCOL:  # noqa: PLR2004 -- IPv4
        return None
    start = 4 * (packet[0] & 0xF)
    if len(packet) < start + _UDP.size:
        return None
    source, port, length, _ = _UDP.unpack_from(packet, start)
    if (source, port) != (SERVER_PORT, CLIENT_PORT):
        return None
    return packet[start + _UDP.size : start + length]


def _checksum(octets: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    if len(octets) % 2:
        octets += b"\0"
    total: int = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
