"""Netlink attributes in the kernel's replies, taken apart (include/uapi/linux/netlink.h, struct nlattr).

For what is read on every ADD: pyroute2 takes 0.2 ms over a link, making an object of each of its hundred attributes;
this takes a tenth of that.
"""

import struct
from collections.abc import Iterator

__all__ = ["items", "uint32", "values"]

_ATTRIBUTE = struct.Struct("=HH")
_TYPE_MASK = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER
_UINT32 = struct.Struct("=I")


def items(encoded: bytes, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the value of each attribute from `offset` to the end."""
    end = len(encoded) - _ATTRIBUTE.size
    while offset <= end:
        length, kind = _ATTRIBUTE.unpack_from(encoded, offset)
        yield kind & _TYPE_MASK, encoded[offset + 4 : offset + length]
        offset += max(4, length + 3 & ~3)


def values(encoded: bytes, offset: int = 0) -> dict[int, bytes]:
    """Return the attributes from `offset` to the end by number; of equal numbers the last."""
    return dict(items(encoded, offset))


def uint32(value: bytes | None) -> int:
    """Return a number in the host's byte order, 0 for none."""
    return int(_UINT32.unpack(value)[0]) if value else 0
