"""All verbs of rtnetlink(7) on one socket."""

import errno
from _socket import AF_INET6
from time import monotonic

from fast_stdlib.typing import Callable, TypeVar
from netlink.addresses import AddressVerbs
from netlink.bridge_ports import PortVerbs
from netlink.kinds import PAIRS
from netlink.link import Link
from netlink.links import LinkVerbs
from netlink.routes import RouteVerbs
from netlink.socket import NETLINK_ROUTE, Socket
from netlink.wire import NetlinkError

_Seen = TypeVar("_Seen")

# include/uapi/linux/rtnetlink.h
_RTMGRP_LINK = 0x1
_RTMGRP_IPV6_IFADDR = 0x100
# Seconds until the next look, even if the notification of a change was lost.
_LOOK_AGAIN = 0.05


class DuplicateAddressError(OSError):
    """Another host on the link has the address."""


def is_oper_up(link: Link) -> bool:
    """Tell whether a link is operational."""
    # UNKNOWN: the driver reports no state, as for lo. For a pair, the kernel has not set the state yet.
    states = {"UP"} if link.kind in PAIRS else {"UP", "UNKNOWN"}
    return link.up and link.oper_state in states


class Rtnl(LinkVerbs, PortVerbs, AddressVerbs, RouteVerbs):
    """The links, addresses and routes of one network namespace.

    One verb is one round trip. `send` takes several changes and looks at once, and each has its own answer then:

        link = find_link(name)
        rtnl.send(add_address(ifindex, interface), change(change_link(ifindex, up=True), "bring it up"), link)
        print(link.answer)
    """

    def wait_oper_up(self, ifindex: int, timeout_s: float) -> Link | None:
        """Wait at most `timeout_s` seconds for a link to be operational, and return it; None if it is not.

        Raises NetlinkError (ENODEV).
        """

        def found_up() -> Link | None:
            link = self.link(ifindex)
            if link is None:
                raise NetlinkError(errno.ENODEV, f"wait for link {ifindex}: it is gone")
            return link if is_oper_up(link) else None

        return self._wait(found_up, _RTMGRP_LINK, timeout_s)

    def wait_link(self, name: str, timeout_s: float) -> Link | None:
        """Wait at most `timeout_s` seconds for a link of that name or alternative name; None if there is none.

        Raises NetlinkError.
        """
        return self._wait(lambda: self.link(name), _RTMGRP_LINK, timeout_s)

    def wait_addresses_settled(self, ifindex: int, timeout_s: float) -> bool:
        """Wait at most `timeout_s` seconds for duplicate address detection to end; False if it has not.

        Raises DuplicateAddressError (EADDRINUSE), and NetlinkError.
        """

        def are_settled() -> bool:
            addresses = self.addresses(ifindex, AF_INET6)
            for address in addresses:
                if address.dadfailed:
                    raise DuplicateAddressError(
                        errno.EADDRINUSE, f"address {address.interface} of link {ifindex} is in use by another host"
                    )
            return not any(address.tentative for address in addresses)

        return self._wait(are_settled, _RTMGRP_IPV6_IFADDR, timeout_s)

    def _wait(self, look: Callable[[], _Seen], groups: int, timeout_s: float) -> _Seen:
        """Call `look` until its result is true, or the time is over; return the last result."""
        deadline = monotonic() + timeout_s
        seen = look()
        if seen:
            return seen
        with self.namespace() as namespace, Socket(NETLINK_ROUTE, namespace, groups=groups) as news:
            while not (seen := look()):
                remaining = deadline - monotonic()
                if remaining <= 0:
                    break
                news.wait(min(remaining, _LOOK_AGAIN))
        return seen
