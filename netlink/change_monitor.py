"""Changes of links, addresses, routes and neighbours, as the kernel announces them (rtnetlink(7), multicast groups)."""

import errno

from fast_stdlib.typing import Final
from netlink.namespace import Closing, Namespace
from netlink.socket import NETLINK_ROUTE, Socket
from netlink.wire import Frame, NetlinkError

RTM_NEWLINK: Final = 16
RTM_DELLINK: Final = 17
RTM_NEWADDR: Final = 20
RTM_DELADDR: Final = 21
RTM_NEWROUTE: Final = 24
RTM_DELROUTE: Final = 25
RTM_NEWNEIGH: Final = 28
RTM_DELNEIGH: Final = 29

# include/uapi/linux/rtnetlink.h, RTMGRP_*
_LINK, _NEIGH, _IPV4_IFADDR, _IPV4_ROUTE, _IPV6_IFADDR, _IPV6_ROUTE = 0x1, 0x4, 0x10, 0x40, 0x100, 0x400
_GROUPS: Final = _LINK | _NEIGH | _IPV4_IFADDR | _IPV4_ROUTE | _IPV6_IFADDR | _IPV6_ROUTE
_BUFFER: Final = 4 << 20
"""Bytes of announcements that may wait: a flush of thousands of routes is announced route by route."""


class ChangeMonitor(Closing):
    """Listens in one network namespace. Not to be shared between threads."""

    def __init__(self, namespace: Namespace | None = None) -> None:
        """Begin to listen, in the thread's own namespace if none is given. Raises OSError."""
        self._socket = Socket(NETLINK_ROUTE, namespace, groups=_GROUPS, buffer=_BUFFER)

    def close(self) -> None:
        """Close; a second call does nothing."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the descriptor, which is readable if something was announced."""
        return self._socket.fileno()

    def announcements(self) -> list[Frame] | None:
        """Return those that wait, without waiting; None if the kernel had to drop some. Raises NetlinkError."""
        try:
            return self._socket.pending()
        except NetlinkError as error:
            if error.errno != errno.ENOBUFS:
                raise
            return None
