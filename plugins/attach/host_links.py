"""The host's socket for links, addresses and routes, open from one call to the next."""

from lean.contextlib import contextmanager
from lean.typing import TYPE_CHECKING, Any, Iterator

if TYPE_CHECKING:
    from netlink.rtnl import Rtnl
    from skel import Args


@contextmanager
def kept_rtnl(args: "Args[Any]") -> Iterator["Rtnl"]:
    """Lend the socket; closed after an error, which may leave answers unread. Raises OSError."""
    from netlink.rtnl import Rtnl

    try:
        yield args.kept.get("rtnl", Rtnl)
    except BaseException:
        args.kept.drop("rtnl")
        raise
