"""The pod's interface as the daemon sees it: found by the path of its network namespace, and changed by netlink."""

import errno
import os
from _socket import AF_INET6
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fast_stdlib.typing import NamedTuple
from netlink.link import Link
from netlink.namespace import Namespace, entered, open_namespace
from netlink.rtnl import Rtnl, is_oper_up
from netlink.sysctl import set_sysctl
from netlink.wire import NetlinkError

from .store import Terms

_GONE = {errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ENODEV, errno.ESRCH}
_IPV6 = 6


class GoneError(Exception):
    """The network namespace or the interface is gone, or another one has its name."""


class Opened(NamedTuple):
    """An interface in its open namespace."""

    namespace: Namespace
    rtnl: Rtnl
    link: Link


class PodInterface:
    """An interface in a pod's network namespace, which is told from a later one at the same path by its inode."""

    def __init__(self, path: str, ifname: str, identity: tuple[int, int] | None = None) -> None:
        """Note the path as the daemon sees it; without `identity`, the namespace of now counts. Raises GoneError."""
        self.path = path
        self.ifname = ifname
        self.identity = self._identity() if identity is None else identity

    @property
    def is_gone(self) -> bool:
        """Whether the network namespace is not at its path any more."""
        try:
            return self._identity() != self.identity
        except GoneError:
            return True

    def _identity(self) -> tuple[int, int]:
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise GoneError(f'network namespace "{self.path}": {error.strerror}') from None
        return status.st_dev, status.st_ino

    @contextmanager
    def opened(self) -> Iterator[Opened]:
        """Open the namespace and find the interface. Raises GoneError, OSError."""
        try:
            namespace = open_namespace(self.path)
        except OSError as error:
            if error.errno in _GONE:
                raise GoneError(f'network namespace "{self.path}": {error.strerror}') from None
            raise
        with namespace:
            if namespace.identity != self.identity:
                raise GoneError(f'network namespace "{self.path}" is another one now')
            with Rtnl(namespace) as rtnl:
                link = rtnl.link(self.ifname)
                if link is None:
                    raise GoneError(f'there is no interface "{self.ifname}" in "{self.path}"')
                yield Opened(namespace, rtnl, link)

    @staticmethod
    def is_ready(opened: Opened, version: int, *, set_up: bool) -> bool:
        """Tell whether a packet of IP `version` can be sent now; `set_up` a link that is down. Raises OSError."""
        if set_up and version == _IPV6:
            with entered(opened.namespace):
                _prepare_ipv6(opened.link.name)
        if set_up and not opened.link.up:
            opened.rtnl.set_up(opened.link.ifindex)
            return False
        if not is_oper_up(opened.link):
            return False
        return version != _IPV6 or any(
            address.interface.ip.is_link_local and not address.tentative
            for address in opened.rtnl.addresses(opened.link.ifindex, AF_INET6)
        )

    def withdraw(self, terms: Terms) -> None:
        """Take the address from the interface, if it has it. Raises GoneError, OSError."""
        with self.opened() as opened:
            opened.rtnl.delete_address(opened.link.ifindex, terms.address)

    def restore(self, terms: Terms) -> None:
        """Give the interface an address again that was withdrawn, and its routes. Raises GoneError, OSError."""
        with self.opened() as opened:
            opened.rtnl.add_address(opened.link.ifindex, terms.address, exist_ok=True)
            for route in terms.routes:
                with suppress(NetlinkError):  # another program may have made it, or another like it
                    opened.rtnl.add_route(
                        opened.link.ifindex, route.dst, gateway=route.gw, priority=route.priority, scope=route.scope
                    )


def _prepare_ipv6(ifname: str) -> None:
    """Have a link-local address, as DHCPv6 needs; its duplicate address detection takes 0.2 s instead of up to 2."""
    settings = {
        f"net/ipv6/conf/{ifname}/router_solicitation_delay": "0",
        f"net/ipv6/neigh/{ifname}/retrans_time_ms": "200",
        f"net/ipv6/conf/{ifname}/disable_ipv6": "0",
    }
    for key, value in settings.items():
        with suppress(OSError):  # /proc/sys may be read-only
            set_sysctl(key, value)
