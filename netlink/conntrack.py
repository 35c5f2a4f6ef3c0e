"""Connections that the kernel tracks (conntrack): those to a port are listed and forgotten.

A connection keeps the destination that its first packet got. So a UDP flow that goes on never meets newer rules, until
the kernel forgets it. Interface: include/uapi/linux/netfilter/nfnetlink_conntrack.h.
"""

import errno
import struct
from _socket import AF_INET, AF_INET6

from fast_stdlib.ipaddress import IPv4Address, IPv6Address, ip_address
from fast_stdlib.typing import Final, Iterable, NamedTuple
from netlink.netfilter import LookUp, Netfilter
from netlink.wire import HEADER, NLM_F_ACK, NetlinkError, attribute, message, nested, number, values

_SUBSYSTEM = 1  # NFNL_SUBSYS_CTNETLINK
_GET, _DELETE = 1, 2  # IPCTNL_MSG_CT_*
_NESTED = 0x8000
_NFGENMSG = struct.Struct(">BBH")
_BODY = HEADER.size + _NFGENMSG.size
_FAMILIES = {4: AF_INET, 6: AF_INET6}

# CTA_*, CTA_TUPLE_*, CTA_IP_*, CTA_PROTO_* and CTA_FILTER_*
_ORIGINAL, _REPLY, _ID, _ZONE, _FILTER = 1, 2, 12, 18, 25
_IP, _PROTO = 1, 2
_IP_SOURCES, _IP_DESTINATIONS = {1, 3}, {2, 4}  # of IPv4 and IPv6
_PROTO_NUMBER, _SOURCE_PORT, _DESTINATION_PORT = 1, 2, 3
_ORIGINAL_FLAGS, _REPLY_FLAGS = 1, 2
_BY_PROTO_NUMBER, _BY_DESTINATION_PORT = 1 << 3, 1 << 5  # CTA_FILTER_FLAG

_NO_CONNTRACK: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.EPROTONOSUPPORT})
"""Answers of a kernel that tracks connections, but has no netlink for it (CONFIG_NF_CT_NETLINK)."""

Address = IPv4Address | IPv6Address


class Connection(NamedTuple):
    """A tracked connection, as its first packet was, and as an answer to it comes."""

    destination: Address
    destination_port: int
    answer_from: Address
    """Another than `destination` if that was rewritten."""
    answer_port: int
    identity: bytes
    """The attributes that name it in a request."""


def connections_to(netfilter: Netfilter, version: int, protocol: int, port: int) -> list[Connection]:
    """Return the connections of an IP `version` and a `protocol` (IPPROTO_*) whose first packet was for `port`.

    The kernel selects them: a node may track a million. None if the kernel has no netlink for it. Raises NetlinkError.
    """
    doing = f"list connections to port {port}"
    try:
        frames = netfilter.dump(list_connections(version, protocol, port), doing=doing)
    except NetlinkError as error:
        if error.errno in _NO_CONNTRACK:
            return []
        raise
    found = [_connection(frame.encoded) for frame in frames]
    # Before Linux 5.8 the kernel ignores the filter.
    return [each for each in found if each is not None and each.destination_port == port]


def forget(netfilter: Netfilter, connections: Iterable[Connection]) -> None:
    """Have the kernel forget connections; the next packet of each begins a new one. Raises NetlinkError.

    A connection that is gone is no error.
    """
    for each in connections:
        doing = f"forget a connection to {each.destination} port {each.destination_port}"
        netfilter.look_up(LookUp(delete_connection(each), doing, _done))


def list_connections(version: int, protocol: int, port: int) -> bytes:
    """Return the request for a dump of the connections to `port`."""
    tuple_ = nested(_PROTO, attribute(_PROTO_NUMBER, bytes([protocol])), attribute(_DESTINATION_PORT, port.to_bytes(2)))
    flags = number(_ORIGINAL_FLAGS, _BY_PROTO_NUMBER | _BY_DESTINATION_PORT) + number(_REPLY_FLAGS, 0)
    return _message(_GET, version, nested(_ORIGINAL, tuple_) + attribute(_FILTER | _NESTED, flags))


def delete_connection(connection: Connection) -> bytes:
    """Return the request to forget one connection."""
    return _message(_DELETE, connection.destination.version, connection.identity, NLM_F_ACK)


def _message(kind: int, version: int, attributes: bytes, flags: int = 0) -> bytes:
    return message(_SUBSYSTEM << 8 | kind, _NFGENMSG.pack(_FAMILIES[version], 0, 0) + attributes, flags)


def _connection(encoded: bytes) -> Connection | None:
    found = values(encoded, _BODY)
    original, reply = values(found.get(_ORIGINAL, b"")), values(found.get(_REPLY, b""))
    destination, answer_from = _address(original, _IP_DESTINATIONS), _address(reply, _IP_SOURCES)
    if destination is None or answer_from is None:
        return None
    # The ID: a later connection of the same kind stays.
    identity = attribute(_ORIGINAL | _NESTED, found[_ORIGINAL]) + b"".join(
        attribute(kind, found[kind]) for kind in (_ID, _ZONE) if kind in found
    )
    return Connection(
        destination, _port(original, _DESTINATION_PORT), answer_from, _port(reply, _SOURCE_PORT), identity
    )


def _address(half: dict[int, bytes], kinds: Iterable[int]) -> Address | None:
    found = values(half.get(_IP, b""))
    return next((ip_address(found[kind]) for kind in kinds if kind in found), None)


def _port(half: dict[int, bytes], kind: int) -> int:
    return int.from_bytes(values(half.get(_PROTO, b"")).get(kind, b""))


def _done(_: object) -> bool:
    return True
