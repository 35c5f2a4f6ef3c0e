"""The suite that has made an attachment: REPAIR puts firewall rules back in the form of that suite.

So a node that goes back to the reference plugins loses nothing: their DEL finds the rules.
"""

from lean.contextlib import nullcontext
from lean.typing import TYPE_CHECKING, Any
from skel import Args

if TYPE_CHECKING:
    from netlink.rtnl import Rtnl


def is_of_reference(args: Args[Any], host: "Rtnl | None" = None) -> bool:
    """Tell whether the reference suite has made the host veths in prevResult: ours have an alias. Raises OSError.

    False for an attachment without a veth on the host. `host` is a socket that is open already.
    """
    from firewall.owner import Owner
    from netlink.link import find_link
    from plugins.attach.attachment import kept_rtnl

    result = args.prev_result
    names = [interface.name for interface in result.interfaces if not interface.sandbox] if result else []
    with kept_rtnl(args) if host is None else nullcontext(host) as rtnl:
        found = [find_link(name) for name in names]
        rtnl.send(*found)
    links = [link for each in found if (link := each.answer) is not None and link.kind == "veth"]
    return bool(links) and all(Owner.from_label(link.alias) is None for link in links)
