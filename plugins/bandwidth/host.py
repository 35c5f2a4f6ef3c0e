"""The host's side of limited bandwidth: the qdiscs of the pod's veth, and the IFB.

Packets to the pod wait at the host's end of its veth pair; those from the pod are redirected there to the IFB.
"""

from fast_stdlib.contextlib import contextmanager, suppress
from fast_stdlib.typing import Iterator, NamedTuple
from firewall.owner import Owner
from netlink.kinds import PAIRS
from netlink.link import Link
from netlink.link_wire import change_link
from netlink.namespace import Namespace
from netlink.request import change
from netlink.rtnl import Rtnl
from netlink.shaper import Shape, flaw, is_redirected, redirect, shape, stop_redirecting, unshape
from netlink.traffic_control import INGRESS, Bucket, find_qdisc
from plugins.attach.attachment import open_pod, owner_of
from plugins.attach.driver import interface_of
from plugins.attach.interface_config import random_mac
from plugins.bandwidth import BandwidthConfig, Limit
from plugins.bandwidth.ifb import KIND, create_ifb, find_ifb
from skel import Args, CniError, Code, Interface, Result, Undo


class Shaping(NamedTuple):
    """One attachment's host side, with its limits."""

    args: Args[BandwidthConfig]
    host: Rtnl
    port: Link
    """The host's end of the pod's veth pair."""
    to_pod: list[Shape]
    """The shape that ADD makes, then the reference's; empty for no limit. So is `from_pod`."""
    from_pod: list[Shape]

    @property
    def owner(self) -> Owner:
        """The attachment."""
        return owner_of(self.args)

    def make(self, undo: Undo) -> Interface | None:
        """Shape both directions; return the IFB, if there is one. Raises CniError, OSError."""
        host, ifindex = self.host, self.port.ifindex
        self._refuse_others()
        if self.to_pod:
            undo.add(host.send, *unshape(ifindex))
            host.send(*shape(ifindex, self.to_pod[0]))
        if not self.from_pod:
            return None
        ifb = create_ifb(host, self.owner, undo, mtu=self.port.mtu, mac=random_mac())
        undo.add(host.send, *stop_redirecting(ifindex))
        self._complete(ifb)
        return interface_of(ifb)

    def verify(self) -> None:
        """Raise CniError (999) for a limit that the kernel does not have."""
        for limit, found in (("ingress", self._flaw_to_pod()), ("egress", self._flaw_from_pod())):
            if found:
                raise CniError(Code.INTERNAL, f'{limit} of "{self.args.ifname}" is not limited as configured: {found}')

    def restore(self, undo: Undo) -> None:
        """Make again all parts that are missing or differ. Raises CniError, OSError."""
        host, ifindex = self.host, self.port.ifindex
        if self._flaw_to_pod():
            host.send(*unshape(ifindex))
            host.send(*shape(ifindex, self.to_pod[0], replace=True))
        if not self._flaw_from_pod():
            return
        ifb = find_ifb(host, self.owner)
        if ifb is None:
            ifb = create_ifb(host, self.owner, undo, mtu=self.port.mtu, mac=self._former_mac() or random_mac())
        host.send(*unshape(ifb.ifindex), *stop_redirecting(ifindex))
        self._complete(ifb)

    def _complete(self, ifb: Link) -> None:
        """Limit the packets that the IFB sends, then redirect the pod's packets to it. Its alias names the owner."""
        doing = f'set link "{ifb.name}" up'
        named = change(change_link(ifb.ifindex, up=True, alias=self.owner.label()), doing)
        shaped = shape(ifb.ifindex, self.from_pod[0], replace=True)
        self.host.send(*shaped, named, *redirect(self.port.ifindex, ifb.ifindex))

    def _refuse_others(self) -> None:
        """Raise CniError if the port is shaped already: undoing this ADD would take that away."""
        looks = [find_qdisc(self.port.ifindex), find_qdisc(self.port.ifindex, INGRESS)]
        self.host.send(*looks)
        for wanted, look in zip((self.to_pod, self.from_pod), looks, strict=True):
            if wanted and look.answer is not None and look.answer.handle:
                message = f'"{self.port.name}" has a qdisc already: {look.answer.kind}'
                raise CniError(Code.INTERNAL, message)

    def _flaw_to_pod(self) -> str:
        return flaw(self.host, self.port.ifindex, *self.to_pod) if self.to_pod else ""

    def _flaw_from_pod(self) -> str:
        if not self.from_pod:
            return ""
        ifb = find_ifb(self.host, self.owner)
        if ifb is None or ifb.kind != KIND:
            return "the IFB is missing"
        if not ifb.up:
            return f'"{ifb.name}" is down'
        if not is_redirected(self.host, self.port.ifindex, ifb.ifindex):
            return f'packets from "{self.port.name}" are not redirected to "{ifb.name}"'
        return flaw(self.host, ifb.ifindex, *self.from_pod)

    def _former_mac(self) -> str:
        """Return the MAC that the result gives to the IFB."""
        result = self.args.prev_result
        macs = [each.mac for each in result.interfaces if each.name.startswith("bwp")] if result else []
        return macs[0] if macs else ""


@contextmanager
def opened(args: Args[BandwidthConfig], result: Result) -> Iterator[Shaping]:
    """Open the host side of a pod's interface. Raises CniError, 7 if that has no veth peer on the host."""
    to_pod, from_pod = args.config.limits()
    with open_pod(args) as netns, Rtnl() as host:
        port = _port(args, netns, host)
        if port.name not in {each.name for each in result.interfaces if not each.sandbox}:
            raise CniError(Code.INVALID_CONFIG, f'prevResult.interfaces: "{port.name}" of the host is missing')
        subnets, only = args.config.subnets()

        def shapes(limit: Limit | None, *, by_source: bool) -> list[Shape]:
            buckets = limit.buckets(port.mtu) if limit else []
            return [Shape(Bucket(*each), subnets, only, by_source) for each in buckets]

        yield Shaping(args, host, port, shapes(to_pod, by_source=True), shapes(from_pod, by_source=False))


def release(args: Args[BandwidthConfig], netns: Namespace) -> None:
    """Remove the qdiscs of the host's end, if it still exists; those of other programs stay. Raises OSError.

    `netns` is the pod's, and is closed.
    """
    with netns, Rtnl() as host, suppress(CniError):  # the pod's interface is gone, or is no end of a pair
        port = _port(args, netns, host)
        host.send(*unshape(port.ifindex), *stop_redirecting(port.ifindex))


def _port(args: Args[BandwidthConfig], netns: Namespace, host: Rtnl) -> Link:
    """Return the host's end of the pod's veth pair. Raises CniError (7, 999)."""
    with Rtnl(netns) as pod:
        inner = pod.link(args.ifname)
    if inner is None:
        raise CniError(Code.INTERNAL, f'interface "{args.ifname}" is missing in the container')
    if inner.kind not in PAIRS:
        kind = inner.kind or "physical interface"
        message = f'"{args.ifname}" in the container is a {kind}: the bandwidth of veth pairs alone can be limited'
        raise CniError(Code.INVALID_CONFIG, message)
    port = host.link(inner.peer_ifindex)
    if port is None or port.kind not in PAIRS or port.peer_ifindex != inner.ifindex:
        raise CniError(Code.INVALID_CONFIG, f'"{args.ifname}" in the container has no peer on the host')
    return port
