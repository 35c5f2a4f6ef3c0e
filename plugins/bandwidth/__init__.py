"""bandwidth: limits the rate of packets to a pod (ingress) and from it (egress).

It comes after an interface plugin that makes a veth pair. See `plugins.bandwidth.host` for the qdiscs.
"""

from fast_stdlib.typing import Final, NamedTuple
from plugins.attach.attachment import open_pod_if_left, owner_of, required_result, valid_owners
from skel import (
    Args,
    CniError,
    Code,
    Config,
    Network,
    Plugin,
    Record,
    Result,
    Undo,
    expected,
    field,
    integer_between,
    list_of,
    network,
    record,
)
from skel.versions import REFERENCE_RELEASE

_UINT32_MAX: Final = 2**32 - 1
_rate = integer_between(0, 2**64 - 1, "bits per second")
_burst = integer_between(0, 8 * _UINT32_MAX - 1, "bits")
_LEAST_RATE = 8
"""The kernel counts bytes."""
_NO_BURST: Final = frozenset({2**31 - 1, _UINT32_MAX, 8 * _UINT32_MAX - 1})
"""Bursts that kubelet, containerd and CRI-O send if nobody asked for one. They would let gigabits pass at once."""
_BURST_SHARE: Final = 50
"""The default burst is this part of a second's bytes, but at least two packets."""
_LEAST_PACKETS = 2
_PACKET_HEADERS = 18
"""Bytes of an Ethernet header with a VLAN tag, which the MTU does not count."""
_QUEUE_SHARE: Final = 40
"""Packets may wait for this part of a second, 25 ms, as with the reference."""
_LEAST_QUEUE: Final = 1 << 16
"""Bytes that may wait with the default burst: one piece of TCP's largest size, or it would lose its end each time."""
_TICKS_PER_US: Final = 15.625

__all__ = ["PLUGIN", "BandwidthConfig"]


class Limit(NamedTuple):
    """The limit of one direction."""

    rate: int
    """Bits per second."""
    burst: int
    """Bits; 0 for the default."""
    literal_burst: int
    """The burst as it was sent, from which the reference would make its bucket."""

    def buckets(self, mtu: int) -> list[tuple[int, int, int]]:
        """Return rate (bytes/s), buffer (64 ns) and limit (bytes) of the bucket that ADD makes, then the reference's.

        `mtu` is that of the link, in bytes. The two are equal unless the burst is the default, or more than the kernel
        can count.
        """
        rate = self.rate // 8
        if self.burst:
            burst = self.burst // 8
            ours = min(_ticks(burst, rate), _UINT32_MAX), min(rate // _QUEUE_SHARE + burst, _UINT32_MAX)
        else:
            burst = max(rate // _BURST_SHARE, _LEAST_PACKETS * (mtu + _PACKET_HEADERS))
            queue = max(rate // _QUEUE_SHARE, _LEAST_QUEUE)
            ours = min(_ticks(burst, rate), _UINT32_MAX), min(burst + queue, _UINT32_MAX)
        literal = self.literal_burst // 8
        reference = _ticks(literal, rate) & _UINT32_MAX, (rate // _QUEUE_SHARE + literal) & _UINT32_MAX
        return [(rate, *ours), (rate, *reference)]


class LimitKeys(Config):
    """The keys of limits: rates in bits per second, bursts in bits. None is absent."""

    ingress_rate: int | None = field(_rate, default=None)
    ingress_burst: int | None = field(_burst, default=None)
    egress_rate: int | None = field(_rate, default=None)
    egress_burst: int | None = field(_burst, default=None)
    unshaped_subnets: list[Network] | None = field(list_of(network), default=None)
    shaped_subnets: list[Network] | None = field(list_of(network), default=None)

    def is_set(self) -> bool:
        """Tell whether any key is present."""
        names = ("ingress_rate", "ingress_burst", "egress_rate", "egress_burst", "unshaped_subnets", "shaped_subnets")
        return any(getattr(self, name) is not None for name in names)


class _RuntimeConfig(Record):
    bandwidth: LimitKeys | None = field(record(LimitKeys), default=None)


class BandwidthConfig(LimitKeys):
    """The plugin's own limits; if it has none, those of the runtime count."""

    runtime_config: _RuntimeConfig = field(record(_RuntimeConfig), default=_RuntimeConfig)

    def limits(self) -> tuple[Limit | None, Limit | None]:
        """Return the limits of packets to the pod (ingress) and from it (egress). Raises CniError (7)."""
        keys, path = self._counting()
        if keys.shaped_subnets and keys.unshaped_subnets:
            shown = [str(each) for each in keys.shaped_subnets]
            raise expected("none, since unshapedSubnets is set", shown, f"{path}shapedSubnets")
        return (
            _limit(keys.ingress_rate or 0, keys.ingress_burst or 0, f"{path}ingress", by_runtime=bool(path)),
            _limit(keys.egress_rate or 0, keys.egress_burst or 0, f"{path}egress", by_runtime=bool(path)),
        )

    def subnets(self) -> tuple[tuple[Network, ...], bool]:
        """Return the subnets, and whether only their packets are shaped; else theirs are not."""
        keys, _ = self._counting()
        return tuple(dict.fromkeys(keys.shaped_subnets or keys.unshaped_subnets or ())), bool(keys.shaped_subnets)

    def _counting(self) -> tuple[LimitKeys, str]:
        """Return the keys that count, and the path of their names."""
        asked = self.runtime_config.bandwidth
        if asked is None or self.is_set():
            return self, ""
        return asked, "runtimeConfig.bandwidth."


def _limit(rate: int, burst: int, path: str, *, by_runtime: bool) -> Limit | None:
    if burst and not rate:
        raise CniError(Code.INVALID_CONFIG, f"{path}Rate: required key is missing: {path}Burst is {burst}")
    if 0 < rate < _LEAST_RATE:
        raise expected(f"0 or at least {_LEAST_RATE} bits per second", rate, f"{path}Rate")
    if not rate:
        return None
    return Limit(rate, 0 if by_runtime and burst in _NO_BURST else burst, burst)


def _ticks(size: int, rate: int) -> int:
    """Return the time to send `size` bytes at `rate` bytes per second, rounded as the reference does."""
    return int(int(size * 1_000_000 / rate) * _TICKS_PER_US)


def _add(args: Args[BandwidthConfig]) -> Result:
    """Limit both directions; the result gets the IFB. A failure leaves nothing."""
    result = required_result(args)
    if not any(args.config.limits()):
        return result
    from plugins.bandwidth.host import opened

    with opened(args, result) as shaping, Undo(args.log, args.interruption) as undo:
        ifb = shaping.make(undo)
    if ifb is not None:
        result.interfaces.append(ifb)
    return result


def _delete(args: Args[BandwidthConfig]) -> None:
    """Remove the limits, whatever the configuration is; the container ID and the network's name find the IFB."""
    from plugins.bandwidth.ifb import delete_ifb
    from skel.steps import Steps

    with Steps() as steps:
        netns = steps.take(open_pod_if_left, args)
        if netns is not None:
            from plugins.bandwidth.host import release

            steps.take(release, args, netns)
        # The owner within the step: reading the network's name may raise its decoding error.
        steps.take(lambda: delete_ifb(owner_of(args), args.context))


def _check(args: Args[BandwidthConfig]) -> None:
    """Raise CniError (999) for a limit that the kernel does not have."""
    result = required_result(args)
    if any(args.config.limits()):
        from plugins.bandwidth.host import opened

        with opened(args, result) as shaping:
            shaping.verify()


def _gc(args: Args[BandwidthConfig]) -> None:
    """Remove the IFBs of attachments that are no longer valid; qdiscs end with their links."""
    valid = valid_owners(args)
    if valid is not None:
        from plugins.bandwidth.ifb import collect_ifbs

        collect_ifbs(args.config.name, valid)


def _status(args: Args[BandwidthConfig]) -> None:
    """Raise CniError (7) for limits that contradict each other."""
    args.config.limits()


def _repair(args: Args[BandwidthConfig]) -> None:
    """Put back the qdiscs, filters and the IFB that are missing or differ."""
    result = required_result(args)
    if any(args.config.limits()):
        from plugins.bandwidth.host import opened

        with opened(args, result) as shaping, Undo(args.log, args.interruption) as undo:
            shaping.restore(undo)


PLUGIN = Plugin(
    "bandwidth",
    config=BandwidthConfig,
    add=_add,
    delete=_delete,
    check=_check,
    gc=_gc,
    status=_status,
    repair=_repair,
    version=REFERENCE_RELEASE,
)
