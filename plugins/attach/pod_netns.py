"""The pod's network namespace, opened in one way by every plugin.

Imports nothing slow: most DELs are of a pod that is gone.

A plugin opens CNI_NETNS once and uses that descriptor for all steps: the file may be replaced at any time.
"""

import os

from lean.typing import TYPE_CHECKING, TypeVar
from skel import Args, CniError, Code, Config
from skel.environment import is_own_namespace, own_namespace_error

if TYPE_CHECKING:
    from netlink.namespace import Namespace

C = TypeVar("C", bound=Config)


def open_pod(args: Args[C]) -> "Namespace":
    """Open the pod's network namespace.

    Raises CniError (4: SPEC.md section 5, an invalid variable) that names CNI_NETNS if the path is missing or is no
    network namespace, and 8 as `refuse_own`.
    """
    from netlink.namespace import open_namespace

    try:
        namespace = open_namespace(args.netns)
    except OSError as error:
        message = f'CNI_NETNS: cannot open the network namespace "{args.netns}": {error.strerror}'
        raise CniError(Code.INVALID_ENVIRONMENT, message) from None
    refuse_own(args, namespace)
    return namespace


def open_pod_if_left(args: Args[C]) -> "Namespace | None":
    """Open the pod's network namespace for a DEL; None if it is gone. Raises CniError (8) as `refuse_own`."""
    if not args.netns or not os.path.exists(args.netns):
        return None
    try:
        return open_pod(args)
    except CniError as error:
        if error.code == Code.INVALID_NETNS:
            raise
        return None


def refuse_own(args: Args[C], namespace: "Namespace") -> None:
    """Close `namespace` and raise CniError (8) if ADD, DEL or REPAIR would change the plugin's own network namespace.

    The dispatcher has compared the path before; the file may have been replaced since.
    """
    if args.verb in {"ADD", "DEL", "REPAIR"} and is_own_namespace(args.environ, args.kept, namespace.fd):
        namespace.close()
        raise own_namespace_error(args.environ)
