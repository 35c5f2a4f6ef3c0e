"""Deleting an attachment's interface: a veth pair from the container ID alone, any other kind in the pod.

Runtimes repeat DEL for attachments that are gone; such a DEL ends with one look-up. So slow modules are imported only
once an interface is found. The kernel may finish the deletion after the answer.
"""

from fast_stdlib.typing import TYPE_CHECKING, TypeVar
from netlink.link_removal import remove_link
from netlink.namespace import Namespace
from plugins.attach.attachment import open_pod_if_left
from plugins.attach.host_veth import host_veth_name
from skel import Args, CniError, Config

if TYPE_CHECKING:
    from netlink.link import Link

C = TypeVar("C", bound=Config)


def disconnect(args: Args[C], kind: str = "veth", passing_name: str = "") -> None:
    """Delete the pod's interface, which is of `kind`.

    A veth or netkit pair is deleted by its host end; by the pod's if another suite has named the host's. Another kind
    may still have `passing_name`, if an ADD was killed. Names and addresses can be used again when this returns. A
    missing interface or network namespace is no error. Raises OSError, and CniError (8) for the plugin's own network
    namespace.
    """
    if kind == "veth" and _remove(args, host_veth_name(args.container_id, args.ifname)):
        return
    _delete_in_pod(args, kind, passing_name)


def _delete_in_pod(args: Args[C], kind: str, passing_name: str) -> None:
    namespace = open_pod_if_left(args)
    if namespace is None:
        return
    from netlink.kinds import PAIRS
    from netlink.rtnl import Rtnl

    with namespace:
        with Rtnl(namespace) as pod:
            found = [pod.link(name) for name in (args.ifname, passing_name) if name]
        kinds = PAIRS if kind in PAIRS else {kind}
        for inner in found:
            if inner is not None and inner.kind in kinds and not _is_of_another(inner, args):
                _remove(args, inner.ifindex, namespace)


def _remove(args: Args[C], name_or_index: str | int, namespace: Namespace | None = None) -> bool:
    context = args.context
    return remove_link(name_or_index, namespace, waiting=context.interruption.waiting, afterwards=context.afterwards)


def _is_of_another(inner: "Link", args: Args[C]) -> bool:
    """Tell by the alias whether a pod's interface is another attachment's. A pair has its alias on the host.

    CNI_NETNS may be /proc/PID/ns/net, and the PID a later container's by now.
    """
    from firewall.owner import Owner
    from netlink.kinds import PAIRS
    from netlink.rtnl import Rtnl

    alias = inner.alias
    if inner.kind in PAIRS:
        with Rtnl() as host:
            port = host.link(inner.peer_ifindex)
        if port is None or port.peer_ifindex != inner.ifindex:
            return False
        alias = port.alias
    try:
        network = args.config.name
    except CniError:
        network = ""  # DEL reports a bad name at its end
    return Owner.from_label(alias) not in {None, Owner(network, args.container_id, args.ifname)}
