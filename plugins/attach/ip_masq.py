"""`ipMasq` as interface plugins share it: which backend, and what the other one may have left.

A pod may have been added by the reference plugins, or under another
`ipMasqBackend`; DEL looks for all of them, with a look-up each where there is
nothing.
"""

from collections.abc import Collection, Sequence

from firewall import masquerade_nft as nft
from firewall.masquerade_iptables import (
    Iptables,
    collect_iptables,
    is_masqueraded_by_iptables,
    masquerade_iptables,
    unmasquerade_iptables,
)
from firewall.masquerade_reference import is_masqueraded_by_reference, unmasquerade_reference
from firewall.owner import Owner
from lean.typing import TypeVar
from plugins.attach.netfilter import netfilter_of
from skel import Args, Cidr, CniError, Code, Config
from skel.steps import Steps

__all__ = ["check_masquerade", "collect_masquerade", "masquerade", "owner_of", "unmasquerade"]

C = TypeVar("C", bound=Config)


def owner_of(args: Args[C]) -> Owner:
    """Return whose the firewall elements of an attachment are."""
    return Owner(args.config.name, args.container_id, args.ifname)


def masquerade(args: Args[C], addresses: Sequence[Cidr], backend: str | None) -> None:
    """Masquerade what leaves the addresses' networks; nftables unless `backend` says "iptables".

    Raises NetlinkError, or OSError where iptables cannot be run.
    """
    if backend == "iptables":
        masquerade_iptables(_iptables(args), addresses, args.config.name, args.container_id)
    else:
        nft.masquerade(netfilter_of(args), addresses, owner_of(args))


def unmasquerade(args: Args[C], addresses: Sequence[Cidr]) -> None:
    """Take back `masquerade`, whichever backend or plugin suite did it. Raises OSError, CniError."""
    owner = owner_of(args)
    with Steps() as steps:
        steps.take(lambda: nft.unmasquerade(netfilter_of(args), owner, addresses))
        steps.take(lambda: unmasquerade_reference(netfilter_of(args), owner.network, owner.ifname, owner.container_id))
        steps.take(lambda: unmasquerade_iptables(_iptables(args), addresses, owner.network, owner.container_id))


def check_masquerade(args: Args[C], addresses: Sequence[Cidr]) -> None:
    """Raise CniError (999) for an address that nothing masquerades (SPEC.md section 2, CHECK).

    A later plugin may have given the interface more addresses, which were never masqueraded: one without a gateway may
    be such, as long as another one is.
    """
    netfilter, owner = netfilter_of(args), owner_of(args)
    missing = [address for address in addresses if not nft.is_masqueraded(netfilter, address, owner)]
    if 0 < len(missing) < len(addresses):
        missing = [address for address in missing if address in _with_gateway(args)]
    if missing and not _masqueraded_by_reference(args):
        raise CniError(Code.INTERNAL, f"not masqueraded: {', '.join(map(str, missing))}")


def collect_masquerade(args: Args[C], valid: Collection[Owner]) -> None:
    """Remove what belongs to attachments of this network that are no longer valid. Raises OSError, CniError.

    The chains of iptables know their container and not the interface: they stay for any valid one of the container.
    """
    with Steps() as steps:
        steps.take(_collect_nftables, args, valid)
        containers = {owner.container_id for owner in valid}
        steps.take(lambda: collect_iptables(_iptables(args), args.config.name, containers))


def _collect_nftables(args: Args[C], valid: Collection[Owner]) -> None:
    stale: dict[Owner, list[Cidr]] = {}
    for address, owner in nft.masqueraded(netfilter_of(args)):
        if owner.in_network(args.config.name) and owner not in valid:
            stale.setdefault(owner, []).append(address)
    with Steps() as steps:
        for owner, addresses in stale.items():
            steps.take(nft.unmasquerade, netfilter_of(args), owner, addresses)
        steps.take(lambda: nft.remove_unused(netfilter_of(args)))


def _with_gateway(args: Args[C]) -> set[Cidr]:
    return {ip.address for ip in args.prev_result.ips if ip.gateway is not None} if args.prev_result else set()


def _masqueraded_by_reference(args: Args[C]) -> bool:
    name, container_id = args.config.name, args.container_id
    if is_masqueraded_by_iptables(_iptables(args), name, container_id):
        return True
    return is_masqueraded_by_reference(netfilter_of(args), name, args.ifname, container_id)


def _iptables(args: Args[C]) -> Iptables:
    return Iptables(netfilter_of(args), args.environ)
