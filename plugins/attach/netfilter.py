"""The firewall of a call: a socket for nftables that the worker keeps, and the environment of the call."""

from lean.typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firewall.tables import Tables
    from netlink.netfilter import Netfilter
    from skel import Args

_NAME = "nftables"


def firewall_of(args: "Args[Any]") -> "Tables":
    """Return access to the firewall in the call's own network namespace; the socket is opened at its first use."""
    from firewall.tables import Tables
    from lean.functools import partial

    return Tables(partial(netfilter_of, args), args.environ)


def netfilter_of(args: "Args[Any]") -> "Netfilter":
    """Return the socket, in the call's own network namespace. Raises OSError.

    One that has lost replies in an earlier step is replaced.
    """
    from netlink.netfilter import Netfilter

    if not args.kept.get(_NAME, Netfilter).is_sound:
        args.kept.drop(_NAME)
    return args.kept.get(_NAME, Netfilter)
