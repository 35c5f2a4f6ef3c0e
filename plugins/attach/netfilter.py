"""The call's socket for nftables: one that the worker keeps, or a new one."""

from lean.typing import TYPE_CHECKING, Any
from netlink.netfilter import Netfilter

if TYPE_CHECKING:
    from skel import Args

__all__ = ["netfilter_of"]

_NAME = "nftables"


def netfilter_of(args: "Args[Any]") -> Netfilter:
    """Return the socket, in the call's own network namespace. Raises OSError.

    One that has lost replies in an earlier step is replaced.
    """
    if not args.kept.get(_NAME, Netfilter).is_sound:
        args.kept.drop(_NAME)
    return args.kept.get(_NAME, Netfilter)
