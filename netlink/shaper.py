"""Shaping: a link sends no faster than a rate, and the packets that come in by a link are sent by another.

With subnets only a part of the packets is shaped. The rest is sent directly.
"""

from ipaddress import IPv4Network, IPv6Network

from fast_stdlib.typing import Any, Final, Iterator, NamedTuple
from netlink.request import RtnlRequest, RtnlSocket, change
from netlink.traffic_control import (
    INGRESS,
    INGRESS_HANDLE,
    ROOT,
    Bucket,
    bfifo,
    delete_qdisc,
    find_class,
    find_qdisc,
    htb,
    htb_class,
    new_class,
    new_qdisc,
    tbf,
)
from netlink.traffic_filters import (
    Filter,
    Key,
    filter_in,
    get_actions,
    get_filters,
    mirred_targets_in,
    new_redirection,
    new_u32_filter,
)

Network = IPv4Network | IPv6Network

_HANDLE: Final = 0x1_0000
_SHAPED: Final = 0x30
"""The minor number of the class of shaped packets."""
_ETH_P_ALL, _ETH_P_IP, _ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
_WORD = 4
_IPV4 = 4
_QUANTUM = 60_000
_DIRECT_PACKETS = 1000
_LEAF_LIMIT = 1 << 18
"""Bytes: several of the largest packets that the kernel hands on in one piece, as htb does not cut them up."""


class Shape(NamedTuple):
    """The limit of a link; without subnets for all packets."""

    bucket: Bucket
    subnets: tuple[Network, ...] = ()
    only_subnets: bool = False
    """Packets of the subnets are shaped, and no others; else all others."""
    by_source: bool = False
    """The subnets are those of the packets' sources; else of their destinations."""

    @property
    def kind(self) -> str:
        """The kind of the qdisc at the link's root."""
        return "htb" if self.subnets else "tbf"


def shape(ifindex: int, wanted: Shape, *, replace: bool = False) -> list[RtnlRequest[bool]]:
    """Ask for a link to be shaped; EEXIST if it has a qdisc that is not the kernel's own, unless `replace`."""
    doing = f"shape link {ifindex} to {wanted.bucket.rate * 8} bit/s"
    if not wanted.subnets:
        return [change(new_qdisc(ifindex, "tbf", tbf(wanted.bucket), handle=_HANDLE, replace=replace), doing)]
    default = 0 if wanted.only_subnets else _SHAPED
    shaped = _HANDLE | _SHAPED
    limit = max(wanted.bucket.limit, _LEAF_LIMIT)
    messages = [
        new_qdisc(ifindex, "htb", htb(default, _DIRECT_PACKETS), handle=_HANDLE, replace=replace),
        new_class(ifindex, "htb", htb_class(wanted.bucket, _QUANTUM), parent=_HANDLE, handle=shaped),
        new_qdisc(ifindex, "bfifo", bfifo(limit), parent=shaped, handle=0),
        *(
            new_u32_filter(
                ifindex,
                parent=_HANDLE,
                priority=each.priority,
                protocol=each.protocol,
                class_id=each.class_id,
                keys=each.keys,
            )
            for each in _filters(wanted)
        ),
    ]
    return [change(encoded, doing) for encoded in messages]


def unshape(ifindex: int) -> list[RtnlRequest[bool]]:
    """Ask for a link's shaping to end; another program's qdisc stays."""
    return [delete_qdisc(ifindex, kind, parent=ROOT, handle=_HANDLE) for kind in ("tbf", "htb")]


def redirect(ifindex: int, target: int) -> list[RtnlRequest[bool]]:
    """Ask for packets that come in by a link to be sent by the link `target`; EEXIST if it has a qdisc for them."""
    ingress = new_qdisc(ifindex, "ingress", parent=INGRESS, handle=INGRESS_HANDLE)
    redirection = new_redirection(ifindex, parent=INGRESS_HANDLE, priority=1, protocol=_ETH_P_ALL, target=target)
    doing = f"redirect packets from link {ifindex} to {target}"
    return [change(ingress, doing), change(redirection, doing)]


def stop_redirecting(ifindex: int) -> list[RtnlRequest[bool]]:
    """Ask for `redirect` to end."""
    return [delete_qdisc(ifindex, "ingress", parent=INGRESS, handle=INGRESS_HANDLE)]


def flaw(rtnl: RtnlSocket, ifindex: int, *wanted: Shape) -> str:
    """Return the first difference between a link and the first of the shapes `wanted` that it might have, or "".

    Raises NetlinkError.
    """
    looks: list[RtnlRequest[Any]] = [find_qdisc(ifindex), find_class(ifindex, _HANDLE | _SHAPED)]
    rtnl.send(*looks)
    qdisc, shaped = (look.answer for look in looks)
    first = wanted[0]
    if qdisc is None or (qdisc.kind, qdisc.handle) != (first.kind, _HANDLE):
        return f"the qdisc {first.kind} is missing"
    if first.subnets:
        if shaped is None or shaped.bucket is None:
            return "the class of shaped packets is missing"
        filters = filters_of(rtnl, ifindex, _HANDLE)
        if sorted(filters) != sorted(_filters(first)):
            return "the filters for the subnets differ"
    bucket = shaped.bucket if first.subnets else qdisc.bucket
    buckets = [each.bucket._replace(limit=0) if first.subnets else each.bucket for each in wanted]
    if bucket in buckets:
        return ""
    if bucket.rate != first.bucket.rate:
        return f"the rate is {bucket.rate * 8} bit/s, expected {first.bucket.rate * 8}"
    return "the burst or the limit of the queue differs"


def is_redirected(rtnl: RtnlSocket, ifindex: int, target: int) -> bool:
    """Tell whether packets that come in by a link are sent by the link `target`. Raises NetlinkError."""
    found = filters_of(rtnl, ifindex, INGRESS_HANDLE)
    return any(each.redirected_to == target and not each.keys for each in found)


def filters_of(rtnl: RtnlSocket, ifindex: int, parent: int) -> list[Filter]:
    """Return the u32 filters of a qdisc. Raises NetlinkError."""
    frames = rtnl.dump(get_filters(ifindex, parent), doing=f"list the filters of link {ifindex}")
    return [found for frame in frames if (found := filter_in(frame)) is not None]


def redirect_targets(rtnl: RtnlSocket) -> set[int]:
    """Return the ifindexes of links that any link's packets are redirected to. Raises NetlinkError."""
    frames = rtnl.dump(get_actions("mirred"), doing="list the redirections")
    return {target for frame in frames for target in mirred_targets_in(frame)}


def _filters(wanted: Shape) -> Iterator[Filter]:
    class_id = _HANDLE | _SHAPED if wanted.only_subnets else _HANDLE
    for subnet in wanted.subnets:
        is_ipv4 = subnet.version == _IPV4
        yield Filter(
            priority=16 if is_ipv4 else 15,  # filters of one priority have one protocol
            protocol=_ETH_P_IP if is_ipv4 else _ETH_P_IPV6,
            class_id=class_id,
            keys=tuple(_words(subnet, _offset(is_ipv4=is_ipv4, by_source=wanted.by_source))),
            redirected_to=0,
        )


def _offset(*, is_ipv4: bool, by_source: bool) -> int:
    """Return the place of an address in a packet, in bytes (RFC 791, RFC 8200)."""
    if is_ipv4:
        return 12 if by_source else 16
    return 8 if by_source else 24


def _words(subnet: Network, offset: int) -> Iterator[Key]:
    mask, address = subnet.netmask.packed, subnet.network_address.packed
    for at in range(0, len(mask), _WORD):
        word = int.from_bytes(mask[at : at + _WORD])
        if word:
            yield Key(word, int.from_bytes(address[at : at + _WORD]), offset + at)
