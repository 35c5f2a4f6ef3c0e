"""`macspoofchk`: a pod sends from its own MAC address alone."""

from collections.abc import Collection

from firewall import spoofcheck_nft as spoofcheck
from firewall.owner import Owner
from firewall.spoofcheck_reference import disallow_reference, is_spoof_checked_by_reference
from lean.typing import TypeVar
from plugins.attach.ip_masq import owner_of
from plugins.attach.netfilter import netfilter_of
from skel import Args, CniError, Code, Config
from skel.steps import Steps

__all__ = ["allow_only", "check", "collect", "disallow"]

C = TypeVar("C", bound=Config)


def allow_only(args: Args[C], port: str, mac: str) -> None:
    """Drop what enters through `port` from another MAC than `mac`. Raises NetlinkError."""
    spoofcheck.allow_only(netfilter_of(args), port, mac, owner_of(args))


def disallow(args: Args[C], port: str) -> None:
    """Take back `allow_only`, and what the reference plugin did; nothing there is fine. Raises OSError, CniError."""
    with Steps() as steps:
        steps.take(lambda: spoofcheck.disallow(netfilter_of(args), owner_of(args), port))
        steps.take(lambda: disallow_reference(netfilter_of(args), args.container_id, args.ifname))


def check(args: Args[C], port: str, mac: str) -> None:
    """Raise CniError (999) where frames from other MACs could pass."""
    if spoofcheck.is_spoof_checked(netfilter_of(args), port, mac, owner_of(args)):
        return
    if not is_spoof_checked_by_reference(netfilter_of(args), args.container_id, args.ifname):
        raise CniError(Code.INTERNAL, f'source addresses of "{port}" are not checked')


def collect(args: Args[C], valid: Collection[Owner]) -> None:
    """Remove the checks of attachments of this network that are no longer valid. Raises OSError, CniError."""
    with Steps() as steps:
        for port, owner in spoofcheck.spoof_checked(netfilter_of(args)):
            if owner.in_network(args.config.name) and owner not in valid:
                steps.take(spoofcheck.disallow, netfilter_of(args), owner, port)
        steps.take(lambda: spoofcheck.remove_unused(netfilter_of(args)))
