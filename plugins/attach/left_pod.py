"""The pod of a DEL, if it still exists. Imports nothing slow: most DELs repeat one of a pod that is gone."""

import os

from lean.typing import TYPE_CHECKING, Any
from skel import Args, CniError, Code

if TYPE_CHECKING:
    from netlink.namespace import Namespace

__all__ = ["pod_if_left"]


def pod_if_left(args: Args[Any]) -> "Namespace | None":
    """Open the pod's network namespace; None if it is gone. Raises CniError (8) for the plugin's own."""
    if not args.netns or not os.path.exists(args.netns):
        return None
    from plugins.attach.pod_netns import open_pod

    try:
        return open_pod(args)
    except CniError as error:
        if error.code == Code.INVALID_NETNS:
            raise
        return None
