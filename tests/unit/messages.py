"""Random parameters of netlink messages, and pyroute2's message of them."""

import random
from collections.abc import Callable
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any

from netlink.bridge_ports import Attributes, build

TIMES = 300
"""Messages of each kind."""
Case = tuple[bytes, bytes]
"""Our message, and pyroute2's."""


class Values:
    """Parameters of messages, the same ones in every run."""

    def __init__(self) -> None:
        self.random = random.Random(20261122)  # noqa: S311 - nothing is kept secret by them

    def number(self) -> int:
        """Return a positive number of 31 bits, often one at the edge of a byte."""
        return self.random.choice([1, 2, 255, 256, 65_535, 65_536, self.random.randrange(1, 2**31)])

    def perhaps(self, value: Callable[[], Any], otherwise: Any = None) -> Any:
        """Return a value, or the other one as often."""
        return value() if self.random.random() < 0.5 else otherwise

    def flag(self) -> bool:
        """Return true as often as false."""
        return self.random.random() < 0.5

    def text(self, longest: int) -> str:
        """Return a text of at most so many characters, ASCII and others."""
        return "".join(self.random.choices("abcäxyz019-_.€", k=self.random.randint(1, longest)))

    def ifname(self) -> str:
        """Return an interface's name."""
        return "".join(self.random.choices("abcxyz019-_.", k=self.random.randint(1, 15)))

    def mac(self) -> str:
        """Return a MAC address."""
        return self.random.randbytes(6).hex(":")

    def address(self, version: int) -> Any:
        """Return an IP address of a version."""
        return ip_address(self.random.randbytes(4 if version == 4 else 16))

    def version(self) -> int:
        """Return 4 or 6."""
        return self.random.choice([4, 6])

    def interface(self) -> Any:
        """Return an address with its prefix."""
        version = self.version()
        return ip_interface((self.address(version), self.random.randint(0, 32 if version == 4 else 128)))

    def network(self, version: int) -> Any:
        """Return a network of an IP version."""
        length = self.random.choice([0, 1, 8, 24, 31, 32] if version == 4 else [0, 1, 48, 64, 127, 128])
        return ip_network((self.address(version), length), strict=False)


def reference(cls: Any, kind: int, attributes: Attributes = (), nlm_flags: int = 0, **fields: int) -> bytes:
    """Return the message of a class of pyroute2, without the attributes that are None."""
    present = [(name, value) for name, value in attributes if value is not None]
    return build(cls, kind, present, nlm_flags=nlm_flags, **fields)
