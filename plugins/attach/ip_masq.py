"""`ipMasq`: the errors of CHECK."""

from collections.abc import Sequence

from firewall import masquerade
from lean.typing import TypeVar
from plugins.attach.netfilter import firewall_of, owner_of
from skel import Args, Cidr, CniError, Code, Config

__all__ = ["check_masquerade"]

C = TypeVar("C", bound=Config)


def check_masquerade(args: Args[C], addresses: Sequence[Cidr]) -> None:
    """Raise CniError (999) for an address that nothing masquerades (SPEC.md section 2, CHECK).

    Plugins later in the list may have added addresses: those come without a gateway.
    """
    ips = args.prev_result.ips if args.prev_result else ()
    later = {ip.address for ip in ips if ip.gateway is None} - {ip.address for ip in ips if ip.gateway is not None}
    missing = masquerade.holds(firewall_of(args), owner_of(args), addresses, later)
    if missing:
        raise CniError(Code.INTERNAL, f"not masqueraded: {', '.join(map(str, missing))}")
