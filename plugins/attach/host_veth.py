"""A veth or netkit pair between the host and the pod, as every plugin that uses one makes, finds and checks it.

The name of the host's end follows from the container ID and the interface name, so DEL needs neither the pod's
namespace nor a record of the ADD. Its alias names the attachment, for people and for GC. A veth without one is of the
reference suite: REPAIR puts firewall rules back in the form of the suite that made the attachment. So a node that goes
back to the reference plugins loses nothing, because their DEL finds the rules.

Plugins give both ends a MAC, because udev(7) replaces a MAC that the kernel chose, at any later moment. Every DEL loads
this module, so `netlink` is imported in functions alone.
"""

import errno

from fast_stdlib.contextlib import nullcontext
from fast_stdlib.hashing import sha256
from fast_stdlib.typing import TYPE_CHECKING, Any, Callable
from plugins.attach.attachment import kept_rtnl
from skel import Args, CniError, Code, Result

if TYPE_CHECKING:
    from collections.abc import Collection

    from firewall.owner import Owner
    from netlink.link import Link
    from netlink.namespace import Namespace
    from netlink.rtnl import Rtnl

_IFNAME_MAX = 15
_UP_SECONDS = 2.5
"""How long the host's end may take to come up; the reference gives a bridge's port as much."""


def host_veth_name(container_id: str, ifname: str) -> str:
    """Return the name of an attachment's host veth: "veth" and 44 bits of a hash, which fills an interface name."""
    digest = sha256(f"{container_id}\0{ifname}".encode()).hexdigest()
    return f"veth{digest}"[:_IFNAME_MAX]


def collect_host_veths(network: str, valid: "Collection[Owner]") -> None:
    """Delete the host veths of attachments of `network` that are not `valid`. Raises OSError, CniError.

    The alias finds them, so a pod that has lost its bridge is found, too.
    """
    from firewall.owner import Owner
    from netlink.kinds import PAIRS
    from netlink.rtnl import Rtnl
    from skel.steps import Steps

    with Rtnl() as host, Steps() as steps:
        for link in host.links():
            owner = Owner.from_label(link.alias) if link.kind in PAIRS else None
            if owner is not None and owner.in_network(network) and owner not in valid:
                steps.take(host.delete_link, link.ifindex)


def is_of_reference(args: Args[Any], host: "Rtnl | None" = None) -> bool:
    """Tell whether the reference suite has made the host veths in prevResult: ours have an alias. Raises OSError.

    False for an attachment without a veth on the host. `host` is a socket that is open already.
    """
    from firewall.owner import Owner
    from netlink.link import find_link

    result = args.prev_result
    names = [interface.name for interface in result.interfaces if not interface.sandbox] if result else []
    with kept_rtnl(args) if host is None else nullcontext(host) as rtnl:
        found = [find_link(name) for name in names]
        rtnl.send(*found)
    links = [link for each in found if (link := each.answer) is not None and link.kind == "veth"]
    return bool(links) and all(Owner.from_label(link.alias) is None for link in links)


def make_pair(
    make: "Callable[[str], Link]",
    device_type: str | None,
    log: Callable[[str], None],
    *,
    name: str,
    peer: str,
    namespace: "Namespace",
) -> "Link":
    """Return what `make` makes with a pair of a kind, "netkit" if `device_type` says so, else "veth".

    If the kernel has no netkit, or none with a MAC, it is a veth pair, and `log` gets a note. Raises CniError if
    `name`, or `peer` in `namespace`, is taken: the pod's interface must not exist (SPEC.md section 2, ADD). Raises
    NetlinkError.
    """
    from netlink.wire import NetlinkError

    kind = device_type or "veth"
    try:
        return make(kind)
    except NetlinkError as error:
        if error.errno == errno.EEXIST:
            message = (
                f'cannot connect "{peer}" in {namespace.path} by "{name}": an interface of that name exists already'
            )
            raise CniError(Code.INTERNAL, message) from None
        if kind != "netkit" or error.errno != errno.EOPNOTSUPP:
            raise
        log(f"deviceType: this kernel has no netkit for pods, so the pair is veth: {error.strerror}")
    return make_pair(make, None, log, name=name, peer=peer, namespace=namespace)


def delete_own(host: "Rtnl", name: str, mac: str) -> None:
    """Delete a link if it has the random MAC that this ADD gave it; another link of that name stays.

    Raises NetlinkError.
    """
    link = host.link(name)
    if link is not None and link.mac == mac:
        host.delete_link(link.ifindex)


def wait_up(host: "Rtnl", port: "Link") -> "Link":
    """Return the host's end when it passes packets, at once if it did when it was last seen. Raises CniError (11)."""
    from netlink.rtnl import is_oper_up

    risen = port if is_oper_up(port) else host.wait_oper_up(port.ifindex, _UP_SECONDS)
    if risen is None:
        raise CniError(Code.TRY_AGAIN_LATER, f'"{port.name}" did not come up in {_UP_SECONDS} s')
    return risen


def check_host_end(host: "Rtnl", result: Result, inner: "Link") -> "Link":
    """Return the host's end of the pod's interface.

    Raises CniError (999) if it is missing, down, or differs from the result.
    """
    from plugins.attach.pod_interface import check_mac

    found = find_host_end(host, result, inner)
    for expected in result.interfaces:
        if not expected.sandbox and expected.name == found.name:
            check_mac(expected, found)
    if not found.up:
        raise CniError(Code.INTERNAL, f'"{found.name}" is down')
    return found


def find_host_end(host: "Rtnl", result: Result, inner: "Link") -> "Link":
    """Return the host's end of the pod's interface, which the result lists. Raises CniError (999) if it is missing."""
    from netlink.kinds import PAIRS

    found = host.link(inner.peer_ifindex)
    listed = {interface.name for interface in result.interfaces if not interface.sandbox}
    if found is None or found.kind not in PAIRS or found.peer_ifindex != inner.ifindex or found.name not in listed:
        raise CniError(Code.INTERNAL, f'the host\'s end of "{inner.name}" is missing')
    return found
