"""bandwidth: limits the rate of packets to a pod (ingress) and from it (egress).

It comes after an interface plugin that makes a veth pair. See `plugins.bandwidth.host` for the qdiscs.
"""

from plugins.attach.attachment import open_pod_if_left, owner_of, required_result, valid_owners
from plugins.bandwidth.config import BandwidthConfig
from skel import Args, Plugin, Result, Undo
from skel.versions import REFERENCE_RELEASE

__all__ = ["PLUGIN", "BandwidthConfig"]


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
