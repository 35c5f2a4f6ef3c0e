"""The arguments that all backends share, and the types of addresses."""

import errno

from lean.ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network, ip_network
from lean.typing import Callable, Iterator, Mapping, NamedTuple
from netlink.netfilter import Netfilter
from netlink.nftables import ATTEMPTS
from netlink.wire import NetlinkError

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network


class Tables(NamedTuple):
    """Access to the firewall of the network namespace that the calling thread is in."""

    netfilter: Callable[[], Netfilter]
    """Returns the socket for nftables, which is opened at the first call. Raises OSError."""
    environ: Mapping[str, str]
    """The environment of the iptables programs, and the PATH to find them on."""


def attempts(doing: str) -> Iterator[None]:
    """Yield for each attempt to look and to commit. Raises NetlinkError (EAGAIN) if other processes are always faster.

    `doing` names the attempted change in the error.
    """
    for _ in range(ATTEMPTS):
        yield
    raise NetlinkError(errno.EAGAIN, f"{doing}: the firewall's rules kept changing")


def alone(address: Address | Interface) -> Network:
    """Return the network that has this address and no other: "10.88.0.5/32", as firewall programs write it."""
    return ip_network(address.ip if isinstance(address, IPv4Interface | IPv6Interface) else address)


def with_port(address: Address, port: int) -> str:
    """Return both as URLs and iptables have them: "10.88.0.5:80", "[2001:db8::5]:80"."""
    return f"[{address}]:{port}" if isinstance(address, IPv6Address) else f"{address}:{port}"
