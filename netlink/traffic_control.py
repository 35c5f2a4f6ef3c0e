"""Traffic control: queueing disciplines (qdiscs) and their classes, as messages and as objects.

Wire format: include/uapi/linux/rtnetlink.h and pkt_sched.h; names are theirs. A handle is a number of 32 bits, the
major and the minor half: 1:30 of tc(8) is 0x10030. Rates are in bytes per second.
"""

import errno
import struct

from fast_stdlib.typing import Final, NamedTuple
from netlink.request import CHANGE, RtnlRequest, change
from netlink.wire import HEADER, NLM_F_CREATE, NLM_F_EXCL, Frame, attribute, message, number, string, text, values

ROOT: Final = 0xFFFFFFFF
INGRESS: Final = 0xFFFFFFF1
"""The parent of a qdisc `ingress`."""
INGRESS_HANDLE: Final = 0xFFFF0000

_NEW_QDISC, _DEL_QDISC, _GET_QDISC = 36, 37, 38
_NEW_CLASS, _GET_CLASS = 40, 42
_NLM_F_REPLACE = 0x100
_NLM_F_ECHO = 0x8
"""Without it the kernel answers a look-up to the subscribers of its notifications alone."""
TCA_KIND, TCA_OPTIONS = 1, 2
_TCA_TBF_PARMS, _TCA_TBF_RATE64 = 1, 4
_TCA_HTB_PARMS, _TCA_HTB_INIT, _TCA_HTB_DIRECT_QLEN, _TCA_HTB_RATE64, _TCA_HTB_CEIL64 = 1, 2, 5, 6, 7
_HTB_VERSION, _HTB_RATE_TO_QUANTUM = 3, 10
_UINT32_MAX: Final = 0xFFFFFFFF

TCMSG = struct.Struct("=B3xiIII")
"""struct tcmsg: family, ifindex, handle, parent, info."""
_RATESPEC = struct.Struct("=BBHhHI")
"""struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, rate."""
_TBF_NUMBERS = struct.Struct("=III")
"""The end of struct tc_tbf_qopt: limit, buffer, mtu; two rates come before."""
_HTB_NUMBERS = struct.Struct("=IIIII")
"""The end of struct tc_htb_opt: buffer, cbuffer, quantum, level, prio; two rates come before."""
_HTB_GLOBAL = struct.Struct("=IIIII")
_NONE = (errno.ENOENT, errno.EINVAL, errno.ENODEV)


class Bucket(NamedTuple):
    """A token bucket; it is full at the start."""

    rate: int
    """Bytes per second."""
    buffer: int
    """The time to send a full bucket at this rate, in units of 64 ns (the kernel's PSCHED_SHIFT)."""
    limit: int = 0
    """Bytes that may wait for tokens."""


class TrafficClass(NamedTuple):
    """A qdisc or a class, as far as this project makes them."""

    kind: str
    handle: int
    bucket: Bucket | None
    """Of a tbf, or a class of htb."""


def tbf(bucket: Bucket) -> bytes:
    """Return the options of a token bucket filter."""
    numbers = _TBF_NUMBERS.pack(bucket.limit, bucket.buffer, 0)
    parameters = attribute(_TCA_TBF_PARMS, _rate(bucket.rate) + _rate(0) + numbers)
    return parameters + _rate64(_TCA_TBF_RATE64, bucket.rate)


def htb(default_class: int, direct_packets: int) -> bytes:
    """Return the options of a hierarchical token bucket: `default_class` is the minor number for unmatched packets.

    Packets of class 0 are sent directly, without a limit; `direct_packets` of them may wait.
    """
    options = _HTB_GLOBAL.pack(_HTB_VERSION, _HTB_RATE_TO_QUANTUM, default_class, 0, 0)
    return attribute(_TCA_HTB_INIT, options) + number(_TCA_HTB_DIRECT_QLEN, direct_packets)


def htb_class(bucket: Bucket, quantum: int) -> bytes:
    """Return the options of a class of htb; `quantum` is in bytes, and needed to avoid a warning of the kernel."""
    rate = _rate(bucket.rate)
    numbers = _HTB_NUMBERS.pack(bucket.buffer, bucket.buffer, quantum, 0, 0)
    rates = (_rate64(each, bucket.rate) for each in (_TCA_HTB_RATE64, _TCA_HTB_CEIL64))
    return attribute(_TCA_HTB_PARMS, rate + rate + numbers) + b"".join(rates)


def bfifo(limit: int) -> bytes:
    """Return the options of a queue of at most `limit` bytes."""
    return struct.pack("=I", limit)


def new_qdisc(
    ifindex: int, kind: str, options: bytes = b"", *, parent: int = ROOT, handle: int = 0, replace: bool = False
) -> bytes:
    """Make a qdisc; with `replace` in place of any other, else EEXIST if there is one that is not the kernel's own."""
    flags = NLM_F_CREATE | (_NLM_F_REPLACE if replace else NLM_F_EXCL)
    return _message(_NEW_QDISC, ifindex, kind, options, handle=handle, parent=parent, flags=flags)


def delete_qdisc(ifindex: int, kind: str, *, parent: int = ROOT, handle: int = 0) -> RtnlRequest[bool]:
    """Ask for a qdisc to be deleted; the answer is False if there is none of that kind and handle, or no such link."""
    encoded = _message(_DEL_QDISC, ifindex, kind, handle=handle, parent=parent)
    return change(encoded, f"delete qdisc {kind} of link {ifindex}", _NONE)


def new_class(ifindex: int, kind: str, options: bytes, *, parent: int, handle: int) -> bytes:
    """Make a class of a qdisc; EEXIST if there is one of that handle."""
    return _message(_NEW_CLASS, ifindex, kind, options, handle=handle, parent=parent, flags=NLM_F_CREATE | NLM_F_EXCL)


def find_qdisc(ifindex: int, parent: int = ROOT) -> RtnlRequest[TrafficClass | None]:
    """Ask for the qdisc at a place; the answer is None if there is none. The kernel's own have the handle 0."""
    encoded = _message(_GET_QDISC, ifindex, parent=parent, flags=_NLM_F_ECHO)
    return _look(encoded, f"look up the qdisc of link {ifindex}")


def find_class(ifindex: int, handle: int) -> RtnlRequest[TrafficClass | None]:
    """Ask for a class; the answer is None if it is missing."""
    encoded = _message(_GET_CLASS, ifindex, handle=handle, flags=_NLM_F_ECHO)
    return _look(encoded, f"look up class {handle:#x} of link {ifindex}")


def _look(encoded: bytes, doing: str) -> RtnlRequest[TrafficClass | None]:
    # The kernel is silent about the qdisc that a removed one leaves: so it acknowledges the request, too.
    return RtnlRequest(encoded, doing, _first_class, asks=CHANGE, harmless=_NONE)


def _message(
    kind: int, ifindex: int, name: str = "", options: bytes = b"", *, handle: int = 0, parent: int = 0, flags: int = 0
) -> bytes:
    return traffic_message(kind, ifindex, name, options, handle=handle, parent=parent, flags=flags, info=0)


def traffic_message(  # noqa: PLR0913 - the fields of a message, each by its name
    kind: int, ifindex: int, name: str, options: bytes, *, handle: int, parent: int, flags: int, info: int
) -> bytes:
    """Return a message of type `kind` about a qdisc, a class or a filter of the kind `name`."""
    attributes = (text(TCA_KIND, name) if name else b"") + (attribute(TCA_OPTIONS, options) if options else b"")
    return message(kind, TCMSG.pack(0, ifindex, handle, parent, info) + attributes, flags)


def _rate(rate: int) -> bytes:
    return _RATESPEC.pack(0, 0, 0, 0, 0, min(rate, _UINT32_MAX))


def _rate64(kind: int, rate: int) -> bytes:
    return attribute(kind, struct.pack("=Q", rate)) if rate > _UINT32_MAX else b""


def _first_class(frames: list[Frame] | None) -> TrafficClass | None:
    if not frames:
        return None
    _, _, handle, _, _ = TCMSG.unpack_from(frames[0].encoded, HEADER.size)
    found = values(frames[0].encoded, HEADER.size + TCMSG.size)
    kind, options = string(found.get(TCA_KIND, b"")), values(found.get(TCA_OPTIONS, b""))
    return TrafficClass(kind, handle, _bucket(kind, options))


def _bucket(kind: str, options: dict[int, bytes]) -> Bucket | None:
    """Return the bucket of a tbf or a class of htb. Both structures begin with two rates, and the first counts."""
    of_kind = {"tbf": (_TCA_TBF_PARMS, _TCA_TBF_RATE64), "htb": (_TCA_HTB_PARMS, _TCA_HTB_RATE64)}
    if kind not in of_kind or of_kind[kind][0] not in options:
        return None
    parameters, rate64 = of_kind[kind]
    encoded = options[parameters]
    rate = _RATESPEC.unpack_from(encoded)[-1]
    if rate64 in options:
        (rate,) = struct.unpack("=Q", options[rate64])
    first, second, _ = _TBF_NUMBERS.unpack_from(encoded, 2 * _RATESPEC.size)
    return Bucket(rate, second, first) if kind == "tbf" else Bucket(rate, first)
