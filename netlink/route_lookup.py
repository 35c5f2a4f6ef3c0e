"""The route of one packet, as the kernel chooses it: by addresses, protocol, ports, mark and the link it came in by.

Interface: RTM_GETROUTE of rtnetlink(7), as `ip route get` uses it. Attributes: include/uapi/linux/rtnetlink.h.
"""

import errno
import struct
from _socket import AF_INET, AF_INET6
from typing import Final, NamedTuple

from netlink.request import RtnlRequest, RtnlSocket
from netlink.routes import RTMSG, Address, KernelRoute, address_of, routes_in
from netlink.wire import HEADER, Frame, NetlinkError, attribute, message, number, values

_RTM_GETROUTE: Final = 26
_RTA_DST, _RTA_SRC, _RTA_IIF, _RTA_PREFSRC, _RTA_MARK = 1, 2, 3, 7, 16
_RTA_IP_PROTO, _RTA_DPORT = 27, 29
_IPV4: Final = 4
_PORT: Final = struct.Struct("!H")
_WITH_PORTS: Final = (6, 17)  # TCP and UDP
_REFUSALS: Final = (
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.EACCES,
    errno.EINVAL,
    errno.ENODATA,
    errno.EXDEV,
    errno.ENOENT,
)


class RoutedPacket(NamedTuple):
    """A packet that needs a route. `iif` is the ifindex of the link it came in by, 0 for a packet of this host."""

    destination: Address
    source: Address | None = None
    iif: int = 0
    mark: int = 0
    protocol: int = 0
    destination_port: int = 0


class ChosenRoute(NamedTuple):
    """The kernel's choice, or its refusal.

    `refusal` is an errno, 0 if there is a route. EXDEV: the reverse path filter refuses it; EINVAL on Linux 6.18.
    EINVAL: the source is this host's own, or no unicast address. ENETUNREACH, EHOSTUNREACH: no route.
    """

    route: KernelRoute | None
    source: Address | None
    """The source address that the kernel gives to a packet of this host; None for a forwarded one."""
    refusal: int = 0


def find_route(rtnl: RtnlSocket, packet: RoutedPacket) -> ChosenRoute:
    """Return the route of a packet in the namespace of `rtnl`. Raises NetlinkError for other errors."""
    doing = f"look up the route to {packet.destination}"
    request = RtnlRequest(_question(packet), doing, _answer)
    try:
        rtnl.send(request)
    except NetlinkError as error:
        if error.errno not in _REFUSALS:
            raise
        return ChosenRoute(None, None, error.errno or errno.EHOSTUNREACH)
    return request.answer


def _question(packet: RoutedPacket) -> bytes:
    bits = packet.destination.max_prefixlen
    family = AF_INET if packet.destination.version == _IPV4 else AF_INET6
    fixed = RTMSG.pack(family, bits, bits if packet.source is not None else 0, *bytes(5), 0)
    parts = [attribute(_RTA_DST, packet.destination.packed)]
    if packet.source is not None:
        parts.append(attribute(_RTA_SRC, packet.source.packed))
    parts += [number(kind, value) for kind, value in ((_RTA_IIF, packet.iif), (_RTA_MARK, packet.mark)) if value]
    if packet.protocol in _WITH_PORTS:
        parts.append(attribute(_RTA_IP_PROTO, bytes([packet.protocol])))
        if packet.destination_port:
            parts.append(attribute(_RTA_DPORT, _PORT.pack(packet.destination_port)))
    return message(_RTM_GETROUTE, fixed + b"".join(parts))


def _answer(frames: list[Frame] | None) -> ChosenRoute:
    if not frames:
        return ChosenRoute(None, None, errno.EHOSTUNREACH)
    encoded = frames[0].encoded
    preferred = values(encoded, HEADER.size + RTMSG.size).get(_RTA_PREFSRC)
    return ChosenRoute(next(routes_in(encoded)), address_of(preferred))
