"""Ports of the host that lead to a pod, as all backends take them."""

from fast_stdlib.typing import Mapping, NamedTuple, Sequence
from firewall.tables import Address, Interface, with_port

PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}
"""The numbers in IP headers (IPPROTO_*)."""


class ForwardedPort(NamedTuple):
    """One port of the host that leads to a port of the pod, for one family of addresses."""

    protocol: str
    """A key of `PROTOCOLS`."""
    host_port: int
    address: Address
    """Of the pod."""
    container_port: int
    host_address: Address | None = None
    """None for all addresses of the host."""

    def described(self) -> str:
        """The host's side, for messages: "8080/tcp", "192.0.2.1:8080/tcp"."""
        port = str(self.host_port) if self.host_address is None else with_port(self.host_address, self.host_port)
        return f"{port}/{self.protocol}"


class Forwarding(NamedTuple):
    """All ports that lead to a pod, and how their packets are treated."""

    mappings: Sequence[ForwardedPort] = ()
    asked: Sequence[tuple[str, int]] = ()
    """Protocols and ports of the host as they were asked for, also those for another family than the pod has."""
    pod: Sequence[Interface] = ()
    """The pod's addresses that ports lead to: at most one of each family."""
    interfaces: Mapping[Address, str] = {}  # noqa: RUF012 -- a Mapping is not changed
    """The host's interface towards each of these; none if there is no route."""
    snat: bool = True
    """Masquerade packets that would get no answer: of the pod itself, of its neighbours, and of 127.0.0.0/8."""
    masquerade_all: bool = False
    """Masquerade all packets."""
    mark_bit: int = 13
    """With iptables, the bit of the mark that packets to masquerade get, from 0 to 31."""
    set_mark_chain: str | None = None
    """With iptables, another program's chain that marks packets to masquerade."""
    conditions: Mapping[int, Sequence[str]] = {}  # noqa: RUF012 -- likewise
    """By version, more conditions that a packet must meet, in the backend's own words."""
