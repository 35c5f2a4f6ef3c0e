"""`ipaddress`, loaded when the first address is made: it takes 2.5 ms with `functools` and `collections`.

A DEL that finds nothing has no addresses. The names serve in annotations, `isinstance` and calls; they are no classes.
"""

import sys

from fast_stdlib.typing import TYPE_CHECKING

__all__ = [
    "IPv4Address",
    "IPv4Interface",
    "IPv4Network",
    "IPv6Address",
    "IPv6Interface",
    "IPv6Network",
    "ip_address",
    "ip_interface",
    "ip_network",
]

if TYPE_CHECKING:
    from ipaddress import (
        IPv4Address,
        IPv4Interface,
        IPv4Network,
        IPv6Address,
        IPv6Interface,
        IPv6Network,
        ip_address,
        ip_interface,
        ip_network,
    )
else:

    class _StandIn:
        """A class or function of the module, or a union: names of classes, and other types."""

        __slots__ = ("_parts",)

        def __init__(self, *parts):
            self._parts = parts

        def __call__(self, *args, **kwargs):
            """Call the class or function."""
            import ipaddress

            return getattr(ipaddress, self._parts[0])(*args, **kwargs)

        def __instancecheck__(self, value):
            module = sys.modules.get("ipaddress")
            known = (getattr(module, part, ()) if isinstance(part, str) else part for part in self._parts)
            return isinstance(value, tuple(known))

        def __or__(self, other):
            return _StandIn(*self._parts, *_parts_of(other))

        def __ror__(self, other):
            return _StandIn(*_parts_of(other), *self._parts)

        def __repr__(self):
            return " | ".join(part if isinstance(part, str) else part.__name__ for part in self._parts)

    def _parts_of(other):
        if isinstance(other, _StandIn):
            return other._parts  # noqa: SLF001 -- a method's part
        return (type(None) if other is None else other,)

    IPv4Address, IPv4Interface, IPv4Network = map(_StandIn, ("IPv4Address", "IPv4Interface", "IPv4Network"))
    IPv6Address, IPv6Interface, IPv6Network = map(_StandIn, ("IPv6Address", "IPv6Interface", "IPv6Network"))
    ip_address, ip_interface, ip_network = map(_StandIn, ("ip_address", "ip_interface", "ip_network"))
