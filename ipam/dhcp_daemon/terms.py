"""The terms of a lease, as the server has granted them and as they are stored."""

import skel.decoders as read
from skel import Address, Cidr, Record, Route, field

_SECONDS = read.integer_between(0, 0xFFFFFFFF, "a number of seconds")
INFINITE = 0xFFFFFFFF


class Terms(Record):
    """An address with its gateway and routes, the server, and the times, in seconds after the request."""

    address: Cidr = field(read.cidr)
    gateway: Address | None = field(read.optional(read.address), default=None)
    routes: list[Route] = field(read.list_of(read.record(Route)), default=list)
    server: str = field(read.string, default="")
    """DHCPv4: the server's address, "" if it is unknown. DHCPv6: its DUID in hexadecimal digits."""
    server_mac: str = field(read.string, default="")
    """DHCPv4: the hardware address that the server's, or its relay's, answer came from."""
    lifetime: int = field(_SECONDS)
    t1: int = field(_SECONDS)
    """When it is renewed, by the server that granted it."""
    t2: int = field(_SECONDS)
    """When it is renewed by any server."""
