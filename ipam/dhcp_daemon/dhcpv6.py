"""Messages of DHCPv6 (RFC 8415): one address (IA_NA) for an attachment. UDP and IP are the kernel's."""

import struct
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address, IPv6Interface

from .dhcpv4 import Reply
from .lease import LeaseEvent
from .store import Terms

CLIENT_PORT, SERVER_PORT = 546, 547
SERVERS = "ff02::1:2"
"""All_DHCP_Relay_Agents_and_Servers, on the link."""
SOLICIT, ADVERTISE, REQUEST, _, RENEW, REBIND, REPLY, RELEASE = range(1, 9)

_CLIENT_ID, _SERVER_ID, _IA_NA, _IA_ADDR, _OPTIONS, _ELAPSED, _STATUS = 1, 2, 3, 5, 6, 8, 13
_OPTION = struct.Struct("!HH")
_IA = struct.Struct("!4sII")
_ADDRESS = struct.Struct("!16sII")
_SOL_MAX_RT = (82).to_bytes(2)
"""An option that every client asks for (RFC 8415 section 18.2.1); kea drops messages that ask for none."""
_MOST_CENTISECONDS = 0xFFFF
_SINGLE = 128


def message(kind: int, xid: int, duid: bytes, iaid: bytes, *, terms: Terms | None, elapsed: float) -> bytes:
    """Return a message of a kind (SOLICIT, REQUEST, RENEW, REBIND, RELEASE).

    `xid` has 24 bits, `iaid` four bytes. `terms` are those offered, held or asked for. `elapsed` is the time in seconds
    since the first message of this kind.
    """
    address = _option(_IA_ADDR, _ADDRESS.pack(terms.address.ip.packed, 0, 0)) if terms is not None else b""
    server = terms is not None and terms.server and kind in {REQUEST, RENEW, RELEASE}
    return b"".join(
        (
            struct.pack("!I", kind << 24 | xid),
            _option(_CLIENT_ID, duid),
            _option(_SERVER_ID, bytes.fromhex(terms.server)) if server and terms is not None else b"",
            _option(_IA_NA, _IA.pack(iaid, 0, 0) + address),
            _option(_ELAPSED, min(int(elapsed * 100), _MOST_CENTISECONDS).to_bytes(2)),
            _option(_OPTIONS, _SOL_MAX_RT) if kind != RELEASE else b"",
        )
    )


def read_reply(payload: bytes, xid: int, duid: bytes, iaid: bytes) -> Reply | None:
    """Return the answer in a payload of UDP; None for any other."""
    if len(payload) < _OPTION.size or int.from_bytes(payload[1:4]) != xid or payload[0] not in {ADVERTISE, REPLY}:
        return None
    options = list(_options(payload[4:]))
    if _first(options, _CLIENT_ID) != duid or (server := _first(options, _SERVER_ID)) is None:
        return None
    offer = payload[0] == ADVERTISE
    flaw = _status(options)
    for code, value in options:
        if code == _IA_NA and value[:4] == iaid and len(value) >= _IA.size:
            inner = list(_options(value[_IA.size :]))
            flaw = flaw or _status(inner)
            terms = _terms(value, inner, server) if not flaw else None
            if terms is not None:
                return Reply(LeaseEvent.OFFER if offer else LeaseEvent.ACK, server.hex(), terms)
    return Reply(
        LeaseEvent.OFFER if offer else LeaseEvent.NAK, server.hex(), None, flaw or "the server sends no address"
    )


def _terms(value: bytes, inner: Iterable[tuple[int, bytes]], server: bytes) -> Terms | None:
    """Return the terms of the first address that is valid."""
    _, t1, t2 = _IA.unpack_from(value)
    for code, address in inner:
        if code != _IA_ADDR or len(address) < _ADDRESS.size:
            continue
        packed, preferred, lifetime = _ADDRESS.unpack_from(address)
        if not lifetime or _status(_options(address[_ADDRESS.size :])):
            continue
        # Zero leaves the choice to the client (RFC 8415 section 21.4).
        t1 = min(t1 or (preferred or lifetime) // 2, lifetime)
        t2 = min(t2 or (preferred or lifetime) * 4 // 5, lifetime)
        return Terms(
            address=IPv6Interface((IPv6Address(packed), _SINGLE)),
            server=server.hex(),
            lifetime=lifetime,
            t1=min(t1, t2),
            t2=t2,
        )
    return None


def _option(code: int, value: bytes) -> bytes:
    return _OPTION.pack(code, len(value)) + value


def _options(field: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + _OPTION.size <= len(field):
        code, size = _OPTION.unpack_from(field, offset)
        offset += _OPTION.size
        if offset + size > len(field):
            return
        yield code, field[offset : offset + size]
        offset += size


def _first(options: Iterable[tuple[int, bytes]], wanted: int) -> bytes | None:
    return next((value for code, value in options if code == wanted), None)


def _status(options: Iterable[tuple[int, bytes]]) -> str:
    """Return the server's error as text, "" for success or none (RFC 8415 section 21.13)."""
    status = _first(options, _STATUS)
    if status is None or int.from_bytes(status[:2]) == 0:
        return ""
    text = status[2:].decode(errors="replace") or "no reason"
    return f"the server says: {text} (status {int.from_bytes(status[:2])})"
