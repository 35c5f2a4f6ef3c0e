"""The owners of firewall rules and links that a call is about. Imports nothing slow: every DEL loads it."""

from lean.typing import TYPE_CHECKING, Any
from skel import Args

if TYPE_CHECKING:
    from firewall.owner import Owner


def owner_of(args: Args[Any]) -> "Owner":
    """Return the call's attachment as the firewall and a link's alias name it. Raises CniError for an unread name."""
    from firewall.owner import Owner

    return Owner(args.config.name, args.container_id, args.ifname)


def valid_owners(args: Args[Any]) -> "set[Owner] | None":
    """Return the attachments that GC keeps; None, which is logged, if the runtime has sent no list.

    Raises CniError for an unread name.
    """
    from firewall.owner import Owner

    config = args.config
    if config.valid_attachments is None:
        args.log("GC without a list of valid attachments: nothing is removed")
        return None
    return {Owner(config.name, each.container_id, each.ifname) for each in config.valid_attachments}
