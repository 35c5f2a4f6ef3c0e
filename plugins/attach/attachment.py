"""The attachment that a call is about: its owner, its pod, and the sockets that the call may use for it.

Imports nothing slow: every DEL loads it, and most DELs are of a pod that is gone.

A plugin opens CNI_NETNS once and uses that descriptor for all steps: the file may be replaced at any time.
"""

import os

from fast_stdlib.contextlib import contextmanager
from fast_stdlib.typing import TYPE_CHECKING, Any, Iterator, TypeVar
from skel import Args, CniError, Code, Config, IPConfig, Result
from skel.environment import is_own_namespace, own_namespace_error

if TYPE_CHECKING:
    from firewall.owner import Owner
    from firewall.tables import Tables
    from netlink.namespace import Namespace
    from netlink.netfilter import Netfilter
    from netlink.rtnl import Rtnl

C = TypeVar("C", bound=Config)
_NFTABLES = "nftables"


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


def pod_ips(result: Result | None, ifname: str, netns: str) -> list[IPConfig]:
    """Return the addresses of the pod's interface; addresses without an index count as its own."""
    if result is None:
        return []
    own = {
        index
        for index, interface in enumerate(result.interfaces)
        if interface.name == ifname and (interface.sandbox == netns or not netns)
    }
    return [ip for ip in result.ips if ip.interface is None or ip.interface in own]


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
    if args.verb in {"ADD", "DEL", "REPAIR"} and is_own_namespace(args.environ, args.open_sockets, namespace.fd):
        namespace.close()
        raise own_namespace_error(args.environ)


def firewall_of(args: Args[Any]) -> "Tables":
    """Return access to the firewall in the call's own network namespace; the socket is opened at its first use."""
    from fast_stdlib.functools import partial
    from firewall.tables import Tables

    return Tables(partial(netfilter_of, args), args.environ)


def netfilter_of(args: Args[Any]) -> "Netfilter":
    """Return the socket for nftables, in the call's own network namespace. Raises OSError.

    One that has lost replies in an earlier step is replaced.
    """
    from netlink.netfilter import Netfilter

    if not args.open_sockets.get(_NFTABLES, Netfilter).is_sound:
        args.open_sockets.drop(_NFTABLES)
    return args.open_sockets.get(_NFTABLES, Netfilter)


@contextmanager
def kept_rtnl(args: Args[Any]) -> Iterator["Rtnl"]:
    """Lend the host's socket for links, addresses and routes, which stays open for the next call. Raises OSError.

    It is closed after an error, which may leave answers unread.
    """
    from netlink.rtnl import Rtnl

    try:
        yield args.open_sockets.get("rtnl", Rtnl)
    except BaseException:
        args.open_sockets.drop("rtnl")
        raise


def required_result(args: Args[Any]) -> Result:
    """Return prevResult, which a chained plugin returns as its own result. Raises CniError (7) if it is missing.

    SPEC.md section 4: the runtime passes the earlier plugin's result to ADD, the list's to the other verbs.
    """
    if args.prev_result is None:
        message = f"prevResult: required key is missing: {args.config.type} comes after an interface plugin in a list"
        raise CniError(Code.INVALID_CONFIG, message)
    return args.prev_result


def nothing(args: Args[Any]) -> None:
    """Do nothing: all that the plugin changes is in the pod's network namespace, and ends with it."""
    del args
