"""What the kernel sends back on a netlink socket, and the errors in it, in its own words (NETLINK_EXT_ACK)."""

import os
import struct
from collections.abc import Iterator, Sequence

from lean.typing import Final, NamedTuple

__all__ = [
    "HEADER",
    "NLMSG_DONE",
    "NLMSG_ERROR",
    "DumpInterruptedError",
    "Frame",
    "NetlinkError",
    "described",
    "frames",
    "refusal",
]

# include/uapi/linux/netlink.h
NLMSG_ERROR: Final = 2
NLMSG_DONE: Final = 3
_NLM_F_CAPPED = 0x100
_NLM_F_ACK_TLVS = 0x200
_NLMSGERR_ATTR_MSG = 1
_NLMSGERR_ATTR_MISS_TYPE = 5

HEADER: Final = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence number, port ID."""
_ATTRIBUTE = struct.Struct("=HH")
_INT = struct.Struct("=i")
_UINT32 = struct.Struct("=I")


class NetlinkError(OSError):
    """The kernel refused: `errno`, and `strerror` with what was asked for and the kernel's own text."""

    explained = False
    """Whether the kernel gave a text besides the number."""


class DumpInterruptedError(NetlinkError):
    """The table changed under every one of the attempts to read it whole."""


class Frame(NamedTuple):
    """One received message: its header's fields, and all its bytes, header included."""

    type: int
    flags: int
    sequence: int
    encoded: bytes


def frames(received: bytes) -> Iterator[Frame]:
    """Take apart what one recv(2) gave."""
    offset = 0
    while offset + HEADER.size <= len(received):
        length, kind, flags, sequence, _ = HEADER.unpack_from(received, offset)
        yield Frame(kind, flags, sequence, received[offset : offset + length])
        offset += max((length + 3) & ~3, HEADER.size)


def refusal(frame: Frame, doing: str) -> NetlinkError | None:
    """Return the error in an NLMSG_ERROR or NLMSG_DONE message, or None if it says that all went well."""
    if len(frame.encoded) < HEADER.size + _INT.size:
        return None
    (number,) = _INT.unpack_from(frame.encoded, HEADER.size)
    if not number:
        return None
    explanations = _explanations(frame)
    failure = NetlinkError(-number, described(doing, os.strerror(-number), *explanations))
    failure.explained = bool(explanations)
    return failure


def described(*parts: str) -> str:
    """Join what there is of an error's description."""
    return ": ".join(part for part in parts if part)


def _explanations(frame: Frame) -> Sequence[str]:
    if not frame.flags & _NLM_F_ACK_TLVS:
        return ()
    offset = HEADER.size + _INT.size
    if frame.type == NLMSG_ERROR:
        (requested_length,) = _UINT32.unpack_from(frame.encoded, offset)
        offset += HEADER.size if frame.flags & _NLM_F_CAPPED else (requested_length + 3) & ~3
    texts: list[str] = []
    while offset + _ATTRIBUTE.size <= len(frame.encoded):
        length, kind = _ATTRIBUTE.unpack_from(frame.encoded, offset)
        value = frame.encoded[offset + _ATTRIBUTE.size : offset + length]
        if kind == _NLMSGERR_ATTR_MSG:
            texts.append(value.rstrip(b"\0").decode(errors="replace"))
        elif kind == _NLMSGERR_ATTR_MISS_TYPE:
            texts.append(f"attribute {_UINT32.unpack(value)[0]} is missing")
        offset += max((length + 3) & ~3, _ATTRIBUTE.size)
    return texts
