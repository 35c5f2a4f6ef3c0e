"""The end of an attachment by a veth pair: found from the container ID alone, and gone before the kernel has finished.

DEL of an attachment that is gone is as frequent as any other, and ends with one look-up; so nothing slow is imported
before there is something to do.
"""

from lean.typing import TYPE_CHECKING, TypeVar
from netlink.link_removal import remove_link
from netlink.namespace import Namespace
from plugins.attach.host_veth import host_veth_name
from skel import Args, CniError, Code, Config

if TYPE_CHECKING:
    from netlink.rtnl import Link

__all__ = ["disconnect"]

C = TypeVar("C", bound=Config)


def disconnect(args: Args[C]) -> None:
    """Delete an attachment's veth pair by the host's end, or by the pod's where another suite named the host's.

    Names and addresses can be used again when this returns. Nothing there, or no namespace any more, is fine. Raises
    OSError, and CniError (8) for the plugin's own network namespace.
    """
    if not _remove(args, host_veth_name(args.container_id, args.ifname)) and args.netns:
        _disconnect_in_pod(args)


def _disconnect_in_pod(args: Args[C]) -> None:
    from netlink.rtnl import Rtnl
    from plugins.attach.pod_netns import open_pod

    try:
        namespace = open_pod(args)
    except CniError as error:
        if error.code == Code.INVALID_NETNS:
            raise
        return  # gone, and its interfaces with it
    with namespace:
        with Rtnl(namespace) as pod:
            inner = pod.link(args.ifname)
        if inner is not None and inner.kind == "veth" and not _is_of_another(inner, args):
            _remove(args, inner.ifindex, namespace)


def _remove(args: Args[C], name_or_index: str | int, namespace: Namespace | None = None) -> bool:
    context = args.context
    return remove_link(name_or_index, namespace, waiting=context.interruption.waiting, afterwards=context.afterwards)


def _is_of_another(inner: "Link", args: Args[C]) -> bool:
    """Tell whether a pod's interface is another attachment's: /proc/PID/ns/net may be a later container's by now."""
    from firewall.owner import Owner
    from netlink.rtnl import Rtnl

    with Rtnl() as host:
        port = host.link(inner.peer_ifindex)
    if port is None or port.peer_ifindex != inner.ifindex:
        return False
    try:
        network = args.config.name
    except CniError:
        network = ""  # DEL reports a bad name at its end
    return Owner.from_label(port.alias) not in {None, Owner(network, args.container_id, args.ifname)}
